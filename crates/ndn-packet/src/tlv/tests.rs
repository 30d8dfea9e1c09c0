use super::*;
use crate::testing::{hex, nested, tlv};

/// Value and encoding at the limits of each width.
const VAR_NUMBERS: [(u64, &str); 8] = [
    (0, "00"),
    (252, "FC"),
    (253, "FD00FD"),
    (0xFFFF, "FDFFFF"),
    (0x1_0000, "FE00010000"),
    (0xFFFF_FFFF, "FEFFFFFFFF"),
    (0x1_0000_0000, "FF0000000100000000"),
    (u64::MAX, "FFFFFFFFFFFFFFFFFF"),
];

#[test]
fn var_numbers_round_trip() {
    for (n, text) in VAR_NUMBERS {
        let bytes = hex(text);
        assert_eq!(read_var_number(&bytes, 0), Ok((n, bytes.len())));
        assert_eq!(var_number_len(n), bytes.len());
        let mut out = [0; 9];
        let mut writer = Writer::new(&mut out);
        writer.var_number(n).unwrap();
        assert_eq!(writer.len(), bytes.len());
        assert_eq!(out[..bytes.len()], bytes);
        for len in 0..bytes.len() {
            assert_eq!(
                read_var_number(&bytes[..len], 0),
                Err(DecodeError::Truncated { offset: 0 })
            );
            assert_eq!(
                Writer::new(&mut out[..len]).var_number(n),
                Err(EncodeError::BufferTooSmall)
            );
        }
    }
}

#[test]
fn longer_var_numbers_are_rejected() {
    for text in
        ["FD00FC", "FD0000", "FE0000FFFF", "FE00000001", "FF00000000FFFFFFFF", "FF0000000000000000"]
    {
        assert_eq!(
            read_var_number(&hex(text), 0),
            Err(DecodeError::NonShortestNumber { offset: 0 }),
            "{text}"
        );
    }
    // Neither as type nor as length of an element.
    for text in ["FD00070101", "07FD000101", "07FF000000000000000101"] {
        assert!(
            matches!(Reader::new(&hex(text)).read(), Err(DecodeError::NonShortestNumber { .. })),
            "{text}"
        );
    }
}

#[test]
fn numbers_round_trip() {
    let cases: [(u64, &str); 8] = [
        (0, "00"),
        (255, "FF"),
        (256, "0100"),
        (65535, "FFFF"),
        (65536, "00010000"),
        (0xFFFF_FFFF, "FFFFFFFF"),
        (0x1_0000_0000, "0000000100000000"),
        (u64::MAX, "FFFFFFFFFFFFFFFF"),
    ];
    for (n, text) in cases {
        assert_eq!(Number::new(n).as_bytes(), hex(text));
        assert_eq!(number_len(n), hex(text).len());
        assert_eq!(decode_number(&hex(text)), Some(n));
        let mut out = Vec::new();
        append_number(&mut out, 9, n);
        assert_eq!(out.len(), number_tlv_len(9, n));
        assert_eq!(Reader::new(&out).read().unwrap().number(), Ok(n));
    }
    // Longer than necessary is valid for values.
    assert_eq!(decode_number(&hex("0000000000000001")), Some(1));
    for len in [0, 3, 5, 6, 7, 9, 16] {
        assert_eq!(decode_number(&vec![0; len]), None, "{len} bytes");
    }
}

#[test]
fn types_range_from_1_to_32_bits() {
    for ty in [1, 252, 253, 0xFFFF, 0x1_0000, u32::MAX] {
        let wire = tlv(ty, &[1, 2]);
        let read = Reader::new(&wire).read_only(ty).unwrap();
        assert_eq!((read.ty(), read.value(), read.wire()), (ty, &[1, 2][..], &wire[..]));
        assert_eq!(wire.len(), tlv_len(ty, 2));
    }
    assert_eq!(Reader::new(&[0, 0]).read().unwrap_err(), DecodeError::InvalidType { offset: 0 });
    let beyond = hex("FF000000010000000000");
    assert_eq!(Reader::new(&beyond).read().unwrap_err(), DecodeError::InvalidType { offset: 0 });
    assert_eq!(frame_len(&beyond), Err(DecodeError::InvalidType { offset: 0 }));
    assert_eq!(frame_len(&[0, 0]), Err(DecodeError::InvalidType { offset: 0 }));
}

#[test]
fn lengths_are_limited_by_the_parent() {
    let overrun = |length| DecodeError::LengthOverrun { ty: 8, offset: 0, length };
    assert_eq!(Reader::new(&[8, 2, 1]).read().unwrap_err(), overrun(2));
    assert_eq!(Reader::new(&hex("08FD0100")).read().unwrap_err(), overrun(256));
    assert_eq!(Reader::new(&hex("08FFFFFFFFFFFFFFFFFF")).read().unwrap_err(), overrun(u32::MAX));
    // The bytes exist, but belong to the next element.
    let wire = [&nested(7, &[&[8, 3, 1]])[..], &[9, 1, 2]].concat();
    let outer = Reader::new(&wire).read().unwrap();
    assert_eq!(
        outer.reader().read().unwrap_err(),
        DecodeError::LengthOverrun { ty: 8, offset: 2, length: 3 }
    );
    // The same for numbers in a header.
    let wire = [&nested(7, &[&[8]])[..], &[0]].concat();
    let outer = Reader::new(&wire).read().unwrap();
    assert_eq!(outer.reader().read().unwrap_err(), DecodeError::Truncated { offset: 3 });
}

#[test]
fn values_are_read_by_form() {
    let wire = [tlv(1, &[]), tlv(2, &[1]), tlv(3, b"text"), tlv(4, &[0xFF])].concat();
    let mut reader = Reader::new(&wire);
    let (empty, byte, text, high) = (
        reader.read().unwrap(),
        reader.read().unwrap(),
        reader.read().unwrap(),
        reader.read().unwrap(),
    );
    assert_eq!(empty.expect_empty(), Ok(()));
    assert_eq!(
        byte.expect_empty(),
        Err(DecodeError::InvalidLength { ty: 2, offset: 2, length: 1 })
    );
    assert_eq!(byte.array::<1>(), Ok(&[1]));
    assert_eq!(text.array::<3>(), Err(DecodeError::InvalidLength { ty: 3, offset: 5, length: 4 }));
    assert_eq!(text.text(), Ok("text"));
    assert_eq!(high.text(), Err(DecodeError::InvalidValue { ty: 4, offset: 11 }));
    assert_eq!((text.offset(), text.value_offset(), text.end(), text.value_len()), (5, 7, 11, 4));
    assert!(reader.is_empty());
    assert_eq!(reader.remaining(), []);
}

#[test]
fn expected_types_are_read() {
    let wire = [tlv(1, &[]), tlv(2, &[])].concat();
    let mut reader = Reader::new(&wire);
    assert!(reader.read_if(2).unwrap().is_none());
    assert!(reader.read_if(1).unwrap().is_some());
    assert_eq!(reader.offset(), 2);
    assert_eq!(
        reader.read_expected(3).unwrap_err(),
        DecodeError::UnexpectedType { expected: 3, found: 2, offset: 2 }
    );
    assert_eq!(reader.read_expected(3).unwrap_err(), DecodeError::Missing { ty: 3, offset: 4 });
    assert!(reader.next_tlv().unwrap().is_none());
    assert!(reader.read_if(1).unwrap().is_none());
    assert_eq!(
        Reader::new(&wire).read_only(1).unwrap_err(),
        DecodeError::TrailingBytes { offset: 2 }
    );
}

#[test]
fn types_up_to_31_and_odd_types_are_critical() {
    use crate::types::is_critical;
    for ty in [1, 2, 30, 31, 33, 255, 65_535, u32::MAX] {
        assert!(is_critical(ty), "{ty}");
    }
    for ty in [32, 34, 126, 254, 256, 65_536, u32::MAX - 1] {
        assert!(!is_critical(ty), "{ty}");
    }
}

/// The types that a sequence yields, or its error.
fn walk(order: &[Field], parts: &[Vec<u8>]) -> Result<Vec<u32>, DecodeError> {
    let wire = parts.concat();
    let mut fields = Fields::new(Reader::new(&wire), order);
    let mut found = Vec::new();
    while let Some(tlv) = fields.next_field()? {
        found.push(tlv.ty());
    }
    Ok(found)
}

#[test]
fn fields_enforce_order_and_skip_non_critical() {
    let order = [Field::once(1), Field::repeated(40), Field::once(33), Field::once(42)];
    let t = |ty| tlv(ty, &[]);
    assert_eq!(walk(&order, &[t(1), t(40), t(40), t(33), t(42)]), Ok(vec![1, 40, 40, 33, 42]));
    assert_eq!(walk(&order, &[t(42)]), Ok(vec![42]));
    // Unknown: skipped if even and above 31.
    assert_eq!(walk(&order, &[t(32), t(1), t(1000), t(42)]), Ok(vec![1, 42]));
    for ty in [2, 31, 35, 1001] {
        assert_eq!(
            walk(&order, &[t(ty)]),
            Err(DecodeError::UnrecognizedCritical { ty, offset: 0 })
        );
    }
    // Repeated or late: the same rule.
    assert_eq!(walk(&order, &[t(42), t(42)]), Ok(vec![42]));
    assert_eq!(walk(&order, &[t(33), t(40)]), Ok(vec![33]));
    assert_eq!(walk(&order, &[t(1), t(1)]), Err(DecodeError::OutOfOrder { ty: 1, offset: 2 }));
    assert_eq!(walk(&order, &[t(42), t(33)]), Err(DecodeError::OutOfOrder { ty: 33, offset: 2 }));
    // Unless declared otherwise.
    let order = [Field::once(33).non_critical()];
    assert_eq!(walk(&order, &[t(33), t(33)]), Ok(vec![33]));
}

#[test]
fn frame_len_splits_a_stream() {
    let wire = [tlv(6, &[0; 300]), tlv(5, &[0; 3])].concat();
    assert_eq!(frame_len(&wire), Ok(Some(304)));
    assert_eq!(frame_len(&wire[304..]), Ok(Some(5)));
    for len in 0..4 {
        assert_eq!(frame_len(&wire[..len]), Ok(None), "{len} bytes");
    }
    // Known before the value has arrived.
    assert_eq!(frame_len(&wire[..4]), Ok(Some(304)));
    assert_eq!(frame_len(&hex("06FFFFFFFFFFFFFFFFFF")), Err(DecodeError::TooLong));
    assert_eq!(frame_len(&hex("06FD0001")), Err(DecodeError::NonShortestNumber { offset: 1 }));
}

#[test]
fn append_and_writer_agree() {
    let name: crate::Name = "/a/b".parse().unwrap();
    let mut appended = Vec::new();
    append_nested(&mut appended, 300, |out| {
        append_name(out, name.as_ref());
        append_number(out, 70_000, 256);
        append_tlv(out, 5, &[9; 260]);
    });
    let mut written = vec![0; appended.len()];
    let value_len = name.as_ref().encoded_len() + number_tlv_len(70_000, 256) + tlv_len(5, 260);
    assert_eq!(appended.len(), tlv_len(300, value_len));
    let mut writer = Writer::new(&mut written);
    assert!(writer.is_empty());
    writer.header(300, value_len).unwrap();
    writer.name(name.as_ref()).unwrap();
    writer.number(70_000, 256).unwrap();
    writer.tlv(5, &[9; 260]).unwrap();
    assert_eq!(writer.bytes(&[1]), Err(EncodeError::BufferTooSmall));
    assert_eq!(written, appended);
}

#[test]
fn errors_name_element_and_offset() {
    let text = |error: DecodeError| error.to_string();
    assert_eq!(
        text(DecodeError::InvalidLength { ty: 10, offset: 7, length: 3 }),
        "Nonce (type 10) at byte 7: length 3 is not allowed"
    );
    assert_eq!(
        text(DecodeError::UnrecognizedCritical { ty: 201, offset: 4 }),
        "element of type 201 at byte 4 is not recognised here, and its type is critical"
    );
    assert_eq!(
        text(DecodeError::TrailingBytes { offset: 4 }.moved_by(3)),
        "bytes left over from byte 7 on"
    );
    assert!(size_of::<DecodeError>() <= 16, "cheap to return");
}
