//! The URI form of names, from text and from bytes.

use ndn_packet::{Name, NameRef};

/// Takes the bytes as the text of a name, and as the value of a Name element.
pub(crate) fn name_uri(bytes: &[u8]) {
    if let Ok(text) = core::str::from_utf8(bytes)
        && let Ok(name) = Name::from_uri(text)
    {
        round_trip(name.as_ref());
    }
    if let Ok(name) = NameRef::from_value(bytes) {
        round_trip(name);
    }
}

fn round_trip(name: NameRef<'_>) {
    let uri = name.to_uri();
    let again = Name::from_uri(&uri).expect("a name's own URI is valid");
    assert_eq!(again, name, "{uri}");
    assert_eq!(again.len(), name.len(), "{uri}");
    assert_eq!(NameRef::from_value(again.value()).map(|name| name.len()), Ok(name.len()));
}
