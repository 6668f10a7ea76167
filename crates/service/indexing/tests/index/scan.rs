//! The index proposes each message that a search without it finds: over whole messages, whose texts
//! are decoded and folded piece by piece.

use posthaste_indexing::{Query, Scope, TermReader};
use posthaste_mime_summary::{SearchKey, SummaryRef, TextSearch};
use posthaste_property::{one_of, properties};
use posthaste_search_index::{Builder, Terms};
use proptest::prelude::*;

/// Bytes of a body after which the search begins its next piece.
const PIECE: usize = 32 * 1024;

/// Each byte as `=XX`, so that a piece of the body ends within characters and within codes.
fn quoted(text: &str, line: usize) -> String {
    let codes: Vec<String> = text.bytes().map(|byte| format!("={byte:02X}")).collect();
    codes.chunks(line).map(|codes| codes.concat()).collect::<Vec<_>>().join("=\r\n")
}

/// A field's value in encoded words, which a reader joins.
fn encoded(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let words = characters.chunks(4).map(|four| {
        let codes = quoted(&String::from_iter(four), 100);
        format!("=?utf-8?q?{codes}?=")
    });
    words.collect::<Vec<_>>().join("\r\n ")
}

fn message(subject: &str, field: &str, bodies: &[String], is_quoted: bool) -> Vec<u8> {
    let encoding = if is_quoted { "quoted-printable" } else { "8bit" };
    let mut text = format!(
        "Subject: {}\r\nX-Own: {}\r\nFrom: {} <ann@example.org>\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=limit\r\n\r\n",
        encoded(subject),
        encoded(field),
        encoded(subject),
    );
    for body in bodies {
        let body = if is_quoted { quoted(body, 24) } else { body.clone() };
        text += &format!(
            "--limit\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Transfer-Encoding: {encoding}\r\n\r\n{body}\r\n"
        );
    }
    text += "--limit--\r\n";
    text.into_bytes()
}

fn terms(message: &[u8], summary: &SummaryRef<'_>) -> Terms {
    let mut terms = TermReader::default();
    terms.begin(summary);
    let mut search = TextSearch::new(&[], summary);
    while terms.step(&mut search, &[], message).is_some() {}
    terms.finish()
}

/// Runs of one kind: long words, scripts without spaces, marks, capitals, ligatures, gaps.
fn text() -> impl Strategy<Value = String> {
    let run = one_of![
        "[A-Ca-c0-2]{1,100}",
        "[a-c]{1,6}",
        "[ ,.@_-]{1,3}",
        "[漢字文書]{1,8}",
        "[กขคé]{1,8}",
        "[Ａｂ。　]{1,8}",
        "[А-Га-г]{1,50}",
        "(e\u{301}|É|ß|ﬁ|Σ|ς|한|글){1,20}",
        "[\u{1f600}\u{10ffff}]{1,3}",
        "[ aeê\u{302}\u{323}\u{1ec7}\u{31b}\u{345}]{1,12}",
        prop::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter),
    ];
    prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat())
}

/// A text, perhaps with something before it that is as long as a piece of a search, or about.
fn body() -> impl Strategy<Value = String> {
    let before = (prop::sample::select(vec!["ab ", "x", "漢", "é", "Wörter ", "ก字"]), 0_usize..120);
    let before = prop::option::weighted(0.3, before);
    (before, text(), text(), any::<bool>()).prop_map(|(before, text, after, is_quoted)| {
        let before = before.map_or_else(String::new, |(unit, less)| {
            let coded = if is_quoted { 3 } else { 1 };
            unit.repeat((PIECE / (unit.len() * coded)).saturating_sub(less))
        });
        format!("{before}{text}{after}")
    })
}

properties! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_finds_nothing_that_the_index_leaves_out(
        (subject, field) in (text(), text()),
        bodies in prop::collection::vec(body(), 1..3),
        is_quoted in any::<bool>(),
        pieces in prop::collection::vec((0_usize..5, any::<prop::sample::Index>(), 0_usize..60), 1..16),
        foreign in text(),
    ) {
        let message = message(&subject, &field, &bodies, is_quoted);
        let record = posthaste_delivery::summarize(&message);
        let summary = SummaryRef::new(&record).unwrap();
        let terms = terms(&message, &summary);
        let mut builder = Builder::default();
        prop_assert!(builder.add(7, &terms));
        let segment = builder.build(&[(7, 7)]);
        let texts = [&subject, &field, &bodies[0], bodies.last().unwrap()];
        let own = pieces.iter().map(|(which, from, len)| {
            let text: Vec<char> = match texts.get(*which) {
                Some(text) => text.chars().collect(),
                // The end of a text, and what is around a piece's end.
                None => bodies[0].chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect(),
            };
            let from = from.index(text.len() + 1);
            text.iter().skip(from).take(*len).collect::<String>()
        });
        for key in own.chain([foreign, String::new(), "Ann@Example.ORG".into(), "x-own: ".into()]) {
            let key = SearchKey::new(&key);
            let proposed = |scope| {
                let query = Query::new(scope, key.indexed());
                query.is_none_or(|query| terms.may_match(&query) && segment.propose(&query) == [7])
            };
            let is_in_envelope = key.is_in(summary.subject_folded()) || key.is_in(summary.from_folded());
            prop_assert!(!is_in_envelope || proposed(Scope::Envelope), "envelope: {key:?}");
            let is_in_texts = key.is_in_body(&message, &summary) || key.is_in_text(&message, &summary);
            prop_assert!(!is_in_texts || proposed(Scope::Texts), "texts: {key:?}");
            let is_in_field = key.is_in_field(encoded(&field).as_bytes());
            prop_assert!(!is_in_field || proposed(Scope::Texts), "field: {key:?}");
        }
    }
}
