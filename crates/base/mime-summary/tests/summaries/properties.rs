//! Properties of every sequence of bytes. Nothing panics. Ranges lie inside each other. Records
//! give back what went in. Damaged records are refused or harmless.

use std::collections::BTreeSet;
use std::ops::Range;

use posthaste_mime_summary::{
    Encoding, Envelope, FieldMask, HeaderFields, Kind, SearchKey, Section, Structure, SummaryParts,
    SummaryRef, Tapped, TextKey, TextSearch, TransferDecoder, Within, address_list, decode_transfer,
    decode_words, folded, sent_date,
};
use posthaste_property::{one_of, properties};
use proptest::prelude::*;

/// Pieces from which messages are put together: the words that matter to MIME, and noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"--",
        b"--b",
        b"--b--",
        b"--bb",
        b"--bb--",
        b"\r\n--b\r\n",
        b"\r\n--bb\r\n",
        b"\r\n--b--\r\n",
        b"Content-Type: multipart/mixed; boundary=b\r\n",
        b"Content-Type: multipart/digest; boundary=bb\r\n\r\n",
        b"Content-Type: message/rfc822\r\n\r\n",
        b"Content-Type: text/html; charset=\"utf-8\"\r\n",
        b"Content-Type: multipart/alternative; boundary*0=\"b\"; boundary*1=b\r\n\r\n",
        b"Content-Type:",
        b"boundary=",
        b"Content-Transfer-Encoding: base64\r\n\r\n",
        b"Content-Transfer-Encoding: quoted-printable\r\n",
        b"=?utf-8?q?",
        b"?=",
        b"=?utf-8?b?w7w=?=",
        b"From: a <b@c>, d: e@f;, i <@r,j@k, <l@[m, (g) \"h",
        b"To:",
        b"Subject: Re: [x] (fwd)",
        b"Date: Fri, 20 Nov ",
        b"Message-ID: <",
        b"@",
        b">",
        b"<",
        b"\"",
        b"\\",
        b"(",
        b")",
        b";",
        b",",
        b":",
        b" ",
        b"\t",
        b"\0",
        b"\xff",
        b"\xc3\xbc",
        b"filename*=utf-8''%C3%BC",
        b"Content-Disposition: attachment; ",
        b"References: <a@b> <c@d>\r\n",
        b"=3D",
        b"=\r\n",
        b"<style>",
        b"</style>",
        b"&amp;",
        b"&#",
        b"Content-Type: text/plain; charset=utf-7\r\n\r\n",
        b"+2D3eCw-",
    ];
    one_of![
        8 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..80).prop_map(|pieces| pieces.concat())
}

fn encode(message: &[u8], structure: &Structure) -> Vec<u8> {
    with_responses(message, structure, (b"(E E E)", 2..4), b"(B)", b"(BS)")
}

/// A record of a message with other responses than those it would have.
fn with_responses(
    message: &[u8],
    structure: &Structure,
    (envelope, repeated): (&[u8], Range<usize>),
    body: &[u8],
    body_structure: &[u8],
) -> Vec<u8> {
    SummaryParts { message, structure, envelope, repeated, body, body_structure }.encode()
}

/// Every value that can be read from a record, whatever its bytes are.
fn ask_all(summary: &SummaryRef<'_>, message: &[u8]) {
    let mut out = Vec::new();
    for mask in [FieldMask::only(["from", "x-own", ""]), FieldMask::all_but(["to"]), FieldMask::default()] {
        out.clear();
        summary.header_fields(&mask).append_to(&mut out);
        assert_eq!(out.len(), summary.header_fields(&mask).len());
        summary.needs_body(&mask);
        summary.field_values(&mask).for_each(drop);
    }
    for path in [&[][..], &[1], &[2], &[1, 1], &[2, 1, 1], &[0]] {
        for section in [Section::Body, Section::Header, Section::Text, Section::Mime] {
            if let Some(found) = summary.locate(path, section) {
                let _ = found.span.of(message);
            }
        }
    }
    let key = SearchKey::new("ü b");
    key.is_in_text(message, summary);
    key.is_in_body(message, summary);
    let _ = (
        summary.sent(),
        summary.preview(),
        summary.base_subject(),
        summary.is_reply(),
        summary.parts().count(),
    );
    let _ = (summary.sort_from(), summary.sort_to(), summary.sort_cc(), summary.message_id_hash());
    let _ = (
        summary.reference_hashes().count(),
        summary.envelope().to_vec(),
        summary.body().to_vec(),
        summary.body_structure(),
    );
}

fn check_ranges(message: &[u8]) -> Structure {
    let structure = Structure::parse(message);
    let root = structure.root();
    // The parts' ranges reproduce the message.
    assert_eq!([root.header.of(message), root.body.of(message)].concat(), message);
    for (index, part) in (0_u32..).zip(structure.parts()) {
        assert_eq!(part.header.end, part.body.start);
        assert!(part.header.start <= part.header.end && part.body.start <= part.body.end);
        assert!(part.body.contains(part.preamble) && part.body.contains(part.epilogue));
        let mut at = part.body.start;
        for (_, child) in structure.children(index) {
            assert!(at <= child.header.start && child.body.end <= part.body.end, "{part:?} {child:?}");
            at = child.body.end;
        }
        assert_eq!(part.kind == Kind::Leaf, structure.children(index).next().is_none());
        let fields: Vec<u8> =
            HeaderFields::new(message, part.header).flat_map(|f| f.span().of(message).to_vec()).collect();
        assert!(part.header.of(message).starts_with(&fields));
        assert!(part.header.len() as usize - fields.len() <= 2);
    }
    structure
}

properties! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_has_a_summary(message in message()) {
        let structure = check_ranges(&message);
        let record = encode(&message, &structure);
        let summary = SummaryRef::new(&record).unwrap();
        prop_assert_eq!(summary.envelope().to_vec(), b"(E E E)");
        prop_assert_eq!(summary.body().to_vec(), b"(B)");
        prop_assert_eq!(summary.body_structure(), b"(BS)");
        prop_assert_eq!(summary.message_size() as usize, message.len());
        prop_assert_eq!(summary.header_size(), structure.root().header.len());
        prop_assert_eq!(summary.part_count(), structure.parts().len());
        prop_assert!(summary.preview().chars().count() <= 200);
        ask_all(&summary, &message);
        for part in structure.parts() {
            let media = part.media(&message);
            let _ = (media.params.decoded("charset"), media.params.decoded("name"), part.encoding_name(&message));
            Envelope::of(&message, HeaderFields::new(&message, part.header));
        }
    }

    #[test]
    fn responses_come_back_as_they_went_in(
        pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(b"() ab".to_vec()), 0..6), 5),
        repeated in (0_usize..20, 0_usize..20),
        is_repeated in any::<bool>(),
        more in prop::sample::select(vec![0_usize, 65_000, 65_536, 200_000]),
    ) {
        let [before, once, after, body, tail] = [0, 1, 2, 3, 4].map(|at: usize| pieces[at].as_slice());
        let envelope = [before, once, once, once, after].concat();
        let honest = before.len()..before.len() + once.len();
        let repeated = if is_repeated { honest } else { repeated.0..repeated.1 };
        let body_structure = [body, tail, &b"x".repeat(more)].concat();
        let structure = Structure::parse(b"From: a@b\r\n\r\ntext");
        let record = with_responses(b"From: a@b\r\n\r\ntext", &structure, (&envelope, repeated), body, &body_structure);
        let summary = SummaryRef::new(&record).unwrap();
        prop_assert_eq!(summary.envelope().to_vec(), envelope);
        prop_assert_eq!(summary.body().to_vec(), body);
        prop_assert_eq!(summary.body_structure(), body_structure);
        prop_assert_eq!(summary.preview(), "text");
    }

    #[test]
    fn fields_from_a_record_are_those_of_the_message(message in message()) {
        let structure = Structure::parse(&message);
        let record = encode(&message, &structure);
        let summary = SummaryRef::new(&record).unwrap();
        let header = structure.root().header.of(&message);
        for mask in [
            FieldMask::only(["From", "Subject", "x-own"]),
            FieldMask::only(["received"]),
            FieldMask::all_but(["from", "content-type"]),
            FieldMask::all_but::<&str>([]),
        ] {
            if !summary.needs_body(&mask) {
                let (mut kept, mut read) = (Vec::new(), Vec::new());
                summary.header_fields(&mask).append_to(&mut kept);
                mask.append_from_header(header, &mut read);
                prop_assert_eq!(kept, read);
            }
        }
        for mask in [FieldMask::only(["From", "x-own"]), FieldMask::all_but(["from"])] {
            // The whole message: what follows a header is part of the rest.
            let (mut whole, mut pieces, mut at) = (Vec::new(), Vec::new(), Some(0));
            mask.append_from_header(&message, &mut whole);
            while let Some(from) = at {
                at = mask.append_piece(&message, from..from + 10, &mut pieces);
                prop_assert!(at.is_none_or(|next| next > from));
            }
            prop_assert_eq!(whole, pieces);
        }
        if summary.has_all_fields() {
            let mut whole = Vec::new();
            summary.header_fields(&FieldMask::all_but::<&str>([])).append_to(&mut whole);
            prop_assert_eq!(whole, header);
        }
    }

    #[test]
    fn damaged_records_do_no_harm(message in message(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let record = encode(&message, &Structure::parse(&message));
        let mut damaged = record.clone();
        damaged[at.index(record.len())] = byte;
        if let Ok(summary) = SummaryRef::new(&damaged) {
            ask_all(&summary, &message);
            ask_all(&summary, b"");
        }
        prop_assert!(SummaryRef::new(&record[..cut.index(record.len())]).is_err());
    }

    #[test]
    fn noise_does_no_harm(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        check_ranges(&noise);
        if let Ok(summary) = SummaryRef::new(&noise) {
            ask_all(&summary, &noise);
        }
        let _ = (sent_date(&noise), decode_words(&noise), address_list(&noise));
        folded(&String::from_utf8_lossy(&noise));
    }

    #[test]
    fn a_missing_bracket_hides_no_address(
        people in prop::collection::vec((
            prop::sample::select(vec!["", "Ana ", "Ana B. (c) ", "\"B, \\\"C\\\" <\" "]),
            prop::sample::select(vec!["", "@r:", "@r, (c, d) @s:"]),
            prop::sample::select(vec!["a@b.c", "\"x, y\"@z", "a(b, c) . d @ e", "a@[192.0.2.1]", "root"]),
            prop::sample::select(vec![">", "", " ", " (c, d)"]),
            prop::sample::select(vec![",", " ,", ",\r\n ", ", ,", ";"]),
        ), 1..8),
        in_group in any::<bool>(),
    ) {
        let mut written = [String::from(if in_group { "g:" } else { "" }), String::from(if in_group { "g:" } else { "" })];
        for (name, route, address, end, separator) in &people {
            written[0] += &format!("{name}<{route}{address}>{separator}");
            written[1] += &format!("{name}<{route}{address}{end}{separator}");
        }
        let [whole, cut] = &written;
        prop_assert_eq!(address_list(cut.as_bytes()), address_list(whole.as_bytes()), "{}", cut);
        let found = address_list(whole.as_bytes()).iter().filter(|address| address.host.is_some()).count();
        prop_assert_eq!(found, people.len(), "{}", whole);
    }

    #[test]
    fn transfer_decoding_knows_no_pieces(body in message(), size in 1_usize..20) {
        for encoding in [Encoding::Base64, Encoding::QuotedPrintable, Encoding::EightBit] {
            let whole = decode_transfer(encoding, &body).unwrap();
            prop_assert!(whole.len() <= body.len());
            let mut decoder = TransferDecoder::new(encoding).unwrap();
            let mut pieces = Vec::new();
            body.chunks(size).for_each(|piece| decoder.decode(piece, &mut pieces));
            decoder.finish(&mut pieces);
            prop_assert_eq!(pieces, whole);
        }
    }

    #[test]
    fn folding_twice_is_folding_once(text in "\\PC{0,40}") {
        let once = folded(&text);
        let again = folded(std::str::from_utf8(&once).unwrap());
        prop_assert_eq!(once, again);
    }

    #[test]
    fn encoded_text_is_found(text in "[a-zäöüß ]{0,30}[a-zäöüß]{4}", filler in 0_usize..70_000) {
        let mut words = String::from("x ").repeat(filler / 2);
        words.push_str(&text);
        let quoted: String = words.bytes().map(|b| format!("={b:02X}")).collect::<Vec<_>>().concat();
        let message = format!(
            "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{quoted}\r\n"
        );
        let record = encode(message.as_bytes(), &Structure::parse(message.as_bytes()));
        let summary = SummaryRef::new(&record).unwrap();
        prop_assert!(SearchKey::new(&text.to_uppercase()).is_in_body(message.as_bytes(), &summary));
        let absent = SearchKey::new("zz qq zz");
        prop_assert!(!absent.is_in_text(message.as_bytes(), &summary));
    }
}

/// The words that the tap gets of a message, split at ASCII that is no letter and no digit. With a
/// key, HTML is rendered whole; without one, only words that the unrendered HTML does not have are
/// given.
fn tapped_words(message: &[u8], keys: &[TextKey]) -> BTreeSet<Vec<u8>> {
    let record = encode(message, &Structure::parse(message));
    let summary = SummaryRef::new(&record).expect("its own record");
    let (mut search, mut words) = (TextSearch::new(keys, &summary), BTreeSet::new());
    let mut text = Vec::new();
    let mut tap = |piece: Tapped<'_>| {
        text.extend_from_slice(piece.text);
        if piece.is_last {
            let is_gap = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
            words.extend(text.split(is_gap).map(<[u8]>::to_vec));
            text.clear();
        }
    };
    while search.step_tapped(keys, message, Some(&mut tap)).is_some() {}
    words
}

properties! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn words_joined_in_html_are_those_of_its_rendering(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<b>", "</b>", "<p>", "<br/>", "<span a='>'>", "<!-- c -->", "<style>", "</style>", "&auml;",
            "&nbsp;", "&shy;", "&amp;", "&lt", "&", "<", "Do", "nau", "\u{ad}", "\u{301}", "\u{a0}", "日",
            "本語", " ", "\r\n", ", ", "ß", "x1", "-",
        ]), 0..60),
        repeats in 1..400_usize,
    ) {
        let html = pieces.concat().repeat(repeats);
        let message = format!("Content-Type: text/html; charset=utf-8\r\n\r\n{html}");
        let never = TextKey { key: SearchKey::new("\u{1}\u{2}\u{3}"), within: Within::Text };
        let whole = tapped_words(message.as_bytes(), &[never]);
        prop_assert_eq!(tapped_words(message.as_bytes(), &[]), whole);
    }
}
