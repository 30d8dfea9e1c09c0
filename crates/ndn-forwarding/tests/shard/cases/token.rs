//! PIT tokens: returned downstream, originated upstream, used only as hints.

use ndn_table::Token;

use super::{Case, LOCAL_A, data, from, interest, nack, run, to};
use crate::bed::SentKind;
use crate::model::Tokens;
use crate::wire::NO_ROUTE;

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
fn two_pending(case: &Case) -> (crate::bed::Bed, Vec<Vec<u8>>) {
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
