//! PIT tokens: returned downstream, originated upstream, used only as hints.

use ndn_packet::NameRef;
use ndn_table::{InterestKey, NameHasher, PREFIX_HASHES_MAX, Token};
use ndn_types::PrincipalIndex;

use super::{Case, LOCAL_A, data, from, interest, nack, run, to};
use crate::bed::{Bed, SentKind};
use crate::model::Tokens;
use crate::wire::{Interest, NO_ROUTE, name, name_value};

#[test]
fn downstream_tokens_of_every_length_are_returned() {
    for length in [1, 6, 7, 8, 9, 10, 32] {
        let token: Vec<u8> = (1..=length).collect();
        let x = |nonce| interest("/a/x", nonce);
        run([
            Case::new("with Data and from the Content Store")
                .route("/a", 2)
                .at(0, from(1, x(1)).token(&token), [to(2, x(1))])
                .at(1, from(2, data("/a/x")), [to(1, data("/a/x")).token(&token)])
                .at(2, from(3, x(2)).token(&token), [to(3, data("/a/x")).token(&token)]),
            Case::new("with a Nack")
                .route("/a", 2)
                .at(0, from(1, x(1)).token(&token), [to(2, x(1))])
                .at(1, from(2, nack(NO_ROUTE, x(1))), [to(1, nack(NO_ROUTE, x(1))).token(&token)]),
            Case::new("the last of several Interests counts")
                .route("/a", 2)
                .at(0, from(1, x(1)).token(b"first"), [to(2, x(1))])
                .at(100, from(1, x(2)).token(&token), [to(2, x(2))])
                .at(101, from(2, data("/a/x")), [to(1, data("/a/x")).token(&token)]),
            Case::new("also the last one without")
                .route("/a", 2)
                .at(0, from(1, x(1)).token(&token), [to(2, x(1))])
                .at(100, from(1, x(2)), [to(2, x(2))])
                .at(101, from(2, data("/a/x")), [to(1, data("/a/x"))]),
        ]);
    }
}

#[test]
fn tokens_are_originated_by_policy() {
    let x = || interest("/a/x", 1);
    let y = || interest("/a/y", 2);
    run([
        Case::new("always").route("/a", 2).face(2, |face| face.tokens = Tokens::Always).at(
            0,
            from(1, x()),
            [to(2, x()).own_token()],
        ),
        Case::new("once the peer has sent one")
            .route("/a", 2)
            .route("/b", 1)
            .face(2, |face| face.tokens = Tokens::WhenSeen)
            .at(0, from(1, x()), [to(2, x())])
            .at(1, from(2, interest("/b/x", 3)).token(b"theirs"), [to(1, interest("/b/x", 3))])
            .at(2, from(1, y()), [to(2, y()).own_token()]),
        Case::new("never, though it has")
            .route("/a", LOCAL_A)
            .route("/b", 1)
            .at(
                1,
                from(LOCAL_A, interest("/b/x", 3)).token(b"theirs"),
                [to(1, interest("/b/x", 3))],
            )
            .at(2, from(1, y()), [to(LOCAL_A, y())]),
    ]);
}

/// Sends Interests for `/a/x` and `/a/y`; returns the tokens sent with them.
fn two_pending(case: &Case) -> (Bed, Vec<Vec<u8>>) {
    let mut bed = case.world.bed(1);
    bed.process(0, &[from(1, interest("/a/x", 1)), from(3, interest("/a/y", 2))]);
    let tokens: Vec<_> = bed.sent.0.drain(..).map(|sent| sent.token).collect();
    assert_eq!(tokens.len(), 2);
    (bed, tokens)
}

#[test]
fn own_token_is_only_a_hint() {
    let case = Case::new("tokens").route("/a", 2).face(2, |face| face.tokens = Tokens::Always);
    let wrong = |tokens: &[Vec<u8>]| {
        let right = Token::decode(&tokens[0]).unwrap();
        vec![
            tokens[0].clone(),
            tokens[1].clone(),
            Token { shard: 9, ..right }.encode().to_vec(),
            Token { entry: 0xFF_FFFF, ..right }.encode().to_vec(),
            Token { generation: right.generation.wrapping_add(1), ..right }.encode().to_vec(),
            vec![0xFF; 6],
            vec![1],
            vec![1; 32],
            Vec::new(),
        ]
    };
    let (_, tokens) = two_pending(&case);
    for number in 0..wrong(&tokens).len() {
        let (mut bed, tokens) = two_pending(&case);
        let token = &wrong(&tokens)[number];
        bed.process(1, &[from(2, data("/a/x")).token(token)]);
        let sent: Vec<_> = bed.sent.0.iter().map(|sent| (sent.face, sent.kind)).collect();
        assert_eq!(sent, [(1, SentKind::Data)], "token {token:?}");
        let (hits, misses) =
            (bed.counters[0].token_hits.value(), bed.counters[0].token_misses.value());
        assert_eq!(hits, u64::from(number == 0), "token {token:?}");
        assert!(misses <= 1 && hits + misses <= 1);
        // The other entry is still pending for its own Data.
        bed.sent.0.clear();
        bed.process(2, &[from(2, data("/a/y")).token(&tokens[1])]);
        assert_eq!(bed.sent.0.len(), 1);
        assert_eq!(bed.sent.0[0].face, 3);
    }
}

/// The PIT entry of an Interest in a shard, and its token.
fn token_of(bed: &mut Bed, shard: u8, interest: &Interest) -> Option<Token> {
    with_key(interest, |key| {
        let pcct = bed.shards[usize::from(shard)].pcct_mut();
        pcct.find_interest(key).map(|entry| pcct.token(entry, shard))
    })
}

fn with_key<T>(interest: &Interest, then: impl FnOnce(&InterestKey<'_>) -> T) -> T {
    let value = name_value(&interest.name);
    let name = NameRef::from_value(&value).unwrap();
    let mut hashes = [0; PREFIX_HASHES_MAX];
    let count = NameHasher::new(*b"a key for tests.").hash_prefixes(name, &mut hashes).unwrap();
    then(&InterestKey::new(name, &hashes[..count], interest.can_be_prefix, interest.must_be_fresh))
}

/// The answer of a probe is on its way while the entry ends, and another Interest gets the same entry and generation.
#[test]
fn late_answer_of_a_probe_is_not_for_the_next_interest_of_its_entry() {
    let mut bed = Case::new("probe").route("/s", 2).world.bed(2);
    let shard_of = |bed: &Bed, uri: &str| {
        let entry = bed.ndt_entry(&name(uri));
        bed.ndt().get(entry).unwrap().shard
    };
    let home = shard_of(&bed, "/s");
    let long = (0..).map(|n| format!("/s/{n}")).find(|uri| shard_of(&bed, uri) != home).unwrap();
    bed.process(0, &[from(1, interest(&long, 1)), from(2, data(&long))]);
    let short = || interest("/s", 2).can_be_prefix();
    // The probe arrives in the other shard, and its answer not yet here.
    bed.process_in_disorder(1, &[from(1, short().lifetime_ms(1))], &mut |_| 0);
    let token = token_of(&mut bed, home, &short()).unwrap();
    let mut script = [1, 0, 0].into_iter();
    bed.process_in_disorder(1, &[], &mut |_| script.next().unwrap());
    bed.advance(5);
    assert_eq!(token_of(&mut bed, home, &short()), None);
    let other = interest("/another", 3);
    let before = token.generation.wrapping_sub(1);
    let reached = (0..=u32::from(u16::MAX)).any(|_| {
        let pcct = bed.shards[usize::from(home)].pcct_mut();
        let wire = other.encode();
        let entry = with_key(&other, |key| {
            pcct.insert_new_interest(key, &wire, PrincipalIndex::OTHER).unwrap()
        });
        let used = pcct.token(entry, home);
        pcct.erase(entry);
        (used.entry, used.generation) == (token.entry, before)
    });
    assert!(reached, "the generation returns");
    let fresh = || interest("/s", 4).can_be_prefix().must_be_fresh();
    bed.process_in_disorder(6, &[from(3, fresh())], &mut |_| 0);
    assert_eq!(token_of(&mut bed, home, &fresh()), Some(token));
    bed.sent.0.clear();
    bed.settle_crossings(6);
    let sent: Vec<_> = bed.sent.0.iter().map(|sent| (sent.kind, sent.face)).collect();
    assert_eq!(sent, [(SentKind::Interest, 2)], "the cached Data is stale");
}
