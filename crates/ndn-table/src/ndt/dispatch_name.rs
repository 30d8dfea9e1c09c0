//! Which part of a name decides on its shard.

use ndn_packet::NameRef;

use crate::key::DIGEST_COMPONENT_LENGTH;
use crate::name_hash::component_end;

/// The components of `name` that dispatch looks at: all but the implicit digests at its end.
///
/// An Interest that asks for a Data by its full name has one component more than the Data, and
/// has to meet it in the same shard. The last component of a Data's own name may look like a
/// digest too, so all of them are left out.
#[inline]
#[must_use]
pub(super) fn dispatch_components(name: NameRef<'_>) -> usize {
    let value = name.value();
    let may_end_in_digest = value
        .len()
        .checked_sub(DIGEST_COMPONENT_LENGTH)
        .is_some_and(|start| value[start] == 1 && value[start + 1] == 32);
    if may_end_in_digest { components_without_digests(value) } else { name.len() }
}

#[cold]
fn components_without_digests(value: &[u8]) -> usize {
    let (mut start, mut count, mut kept) = (0, 0, 0);
    while start < value.len() {
        let Some(end) = component_end(value, start) else { break };
        count += 1;
        let is_digest =
            end - start == DIGEST_COMPONENT_LENGTH && value[start..start + 2] == [1, 32];
        if !is_digest {
            kept = count;
        }
        start = end;
    }
    kept
}
