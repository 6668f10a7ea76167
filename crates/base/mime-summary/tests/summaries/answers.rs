//! Known answers of the values read out of a message and of the record they are kept in.

use posthaste_mime_summary::{
    Address, Disposition, Envelope, EnvelopeText, HEADER_FIELDS_MAX, HEADER_LEN_MAX, HEADER_LEN_SHORT,
    HeaderFields, SearchKey, Span, Structure, SummaryParts, SummaryRef, address_list, has_header_over,
    has_long_header, is_header_bounded, order_mailbox_into, order_subject_into, tap_envelope,
};

fn record(message: &[u8]) -> Vec<u8> {
    let structure = Structure::parse(message);
    SummaryParts {
        message,
        structure: &structure,
        envelope: b"",
        repeated: 0..0,
        body: b"",
        body_structure: b"",
    }
    .encode()
}

/// `name|route|mailbox|host` of each address, `-` for NIL.
fn shown(list: &[Address<'_>]) -> Vec<String> {
    let text = |field: &Option<std::borrow::Cow<'_, [u8]>>| {
        field.as_deref().map_or("-".to_owned(), |t| String::from_utf8_lossy(t).into_owned())
    };
    list.iter().map(|a| [&a.name, &a.route, &a.mailbox, &a.host].map(text).join("|")).collect()
}

#[test]
fn address_lists() {
    for (value, expected) in [
        ("a@b", vec!["-|-|a|b"]),
        (" <a@b>\r\n", vec!["-|-|a|b"]),
        ("Ana <a@b>", vec!["Ana|-|a|b"]),
        ("Ana B. C <a@b>", vec!["Ana B. C|-|a|b"]),
        ("\"Ana, \\\"B\\\"\" <a@b>", vec!["Ana, \"B\"|-|a|b"]),
        ("Ana\r\n  Maria\t<a@b>", vec!["Ana Maria|-|a|b"]),
        ("a@b (Ana)", vec!["Ana|-|a|b"]),
        ("(Ana) a@b, <c@d> (Carl)", vec!["-|-|a|b", "-|-|c|d"]),
        ("=?utf-8?q?A?= =?utf-8?q?B?= <a@b>", vec!["=?utf-8?q?A?= =?utf-8?q?B?=|-|a|b"]),
        ("<@r,@s:a@b>", vec!["-|@r,@s|a|b"]),
        ("\"a b\"@c", vec!["-|-|a b|c"]),
        ("<\"a@b\"@c>", vec!["-|-|a@b|c"]),
        ("a @ b", vec!["-|-|a|b"]),
        ("a.b@[127.0.0.1]", vec!["-|-|a.b|[127.0.0.1]"]),
        ("a@[IPv6:::1]", vec!["-|-|a|[IPv6:::1]"]),
        ("root", vec!["-|-|root|"]),
        ("Name only <>", vec!["Name only|-||"]),
        ("<>", vec![]),
        ("", vec![]),
        (",, ,", vec![]),
        ("g:;", vec!["-|-|g|-", "-|-|-|-"]),
        (
            "\"my group\": a@b, C <c@d>; , e@f",
            vec!["-|-|my group|-", "-|-|a|b", "C|-|c|d", "-|-|-|-", "-|-|e|f"],
        ),
        ("g: a@b", vec!["-|-|g|-", "-|-|a|b", "-|-|-|-"]),
        ("Ana <a@b", vec!["Ana|-|a|b"]),
        ("\"Ana <a@b>", vec!["-|-|Ana <a@b>|"]),
        ("a@b, c@d", vec!["-|-|a|b", "-|-|c|d"]),
        ("a@b;c@d", vec!["-|-|a|b", "-|-|c|d"]),
        ("x@y.z <a@b>", vec!["x@y.z|-|a|b"]),
        // RFC 5322 §3.4.1, §4.4, appendix A.5 and A.6: comments and white space are no part of an
        // address.
        ("pete(his account)@silly.test(his host)", vec!["his host|-|pete|silly.test"]),
        ("Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>", vec!["Pete|-|pete|silly.test"]),
        ("jdoe@test   . example", vec!["-|-|jdoe|test.example"]),
        ("J . Doe <j . doe @ x . y>", vec!["J . Doe|-|j.doe|x.y"]),
        ("user (c)@ (c) domain.org", vec!["c|-|user|domain.org"]),
        ("a@b (one) (two)", vec!["two|-|a|b"]),
        ("a@b (Name \\(nick\\))", vec!["Name (nick)|-|a|b"]),
        ("a@b (Name (nested) x)", vec!["Name (nested) x|-|a|b"]),
        ("John (c) Smith <a@b>", vec!["John Smith|-|a|b"]),
        ("x <@r (c) , @s : y@z>", vec!["x|@r,@s|y|z"]),
        ("test1@local>, <a@b>>", vec!["-|-|test1|local", "-|-|a|b"]),
        ("\"a . b\" . c@d", vec!["-|-|a . b.c|d"]),
        ("a@[192.0.2.1], b@c", vec!["-|-|a|[192.0.2.1]", "-|-|b|c"]),
        (
            "A Group(Some people):Chris Jones <c@(Chris's host.)public.example>,\r\n joe@example.org,\r\n \
             John <jdoe@one.test> (my dear friend); (the end of the group)",
            vec![
                "-|-|A Group|-",
                "Chris Jones|-|c|public.example",
                "-|-|joe|example.org",
                "John|-|jdoe|one.test",
                "-|-|-|-",
            ],
        ),
        (
            "(Empty list)(start)Hidden recipients  :(nobody(that I know))  ;",
            vec!["-|-|Hidden recipients|-", "-|-|-|-"],
        ),
    ] {
        assert_eq!(shown(&address_list(value.as_bytes())), expected, "{value:?}");
    }
}

/// RFC 5322 §3.4: the address ends where another one begins.
#[test]
fn addresses_without_an_end() {
    for (value, expected) in [
        ("A <a@b.c, B <d@e.f>", vec!["A|-|a|b.c", "B|-|d|e.f"]),
        ("A <a@b.c, b@c.d", vec!["A|-|a|b.c", "-|-|b|c.d"]),
        ("A <a@b.c, b@c.d>", vec!["A|-|a|b.c", "-|-|b|c.d"]),
        ("A <a@b.c\r\n , <d@e.f>", vec!["A|-|a|b.c", "-|-|d|e.f"]),
        ("A <a@b.c (x, y), \"B, C\" <d@e.f>", vec!["A|-|a|b.c", "B, C|-|d|e.f"]),
        ("A <\"a, x\"@b.c, d@e.f", vec!["A|-|a, x|b.c", "-|-|d|e.f"]),
        ("A <a@b.c,, d@e.f", vec!["A|-|a|b.c", "-|-|d|e.f"]),
        ("A <a, B <d@e.f>", vec!["A|-|a|", "B|-|d|e.f"]),
        ("A <, B <d@e.f>", vec!["A|-||", "B|-|d|e.f"]),
        ("A <a@b.c, g: B <d@e.f; x@y.z", vec!["A|-|a|b.c", "-|-|g|-", "B|-|d|e.f", "-|-|-|-", "-|-|x|y.z"]),
        ("A <a@b.c; B <d@e.f>", vec!["A|-|a|b.c", "B|-|d|e.f"]),
        ("A <a@b.c <d@e.f>, x@y.z", vec!["A|-|a|b.c", "-|-|d|e.f", "-|-|x|y.z"]),
        ("A <a@b.c B C <d@e.f>", vec!["A|-|a|b.c", "B C|-|d|e.f"]),
        ("A <a@b . c <d@e.f>", vec!["A|-|a|b.c", "-|-|d|e.f"]),
        ("A <<a@b.c>>, d@e.f", vec!["A|-|a|b.c", "-|-|d|e.f"]),
        ("A <a@[192.0.2.1], B <d@e.f>", vec!["A|-|a|[192.0.2.1]", "B|-|d|e.f"]),
        ("A <a@[192.0.2.1, B <d@e.f>", vec!["A|-|a|[192.0.2.1", "B|-|d|e.f"]),
        ("A <a@[192.0.2.1>, B <d@e.f>", vec!["A|-|a|[192.0.2.1", "B|-|d|e.f"]),
        ("a@[192.0.2.1, b@c", vec!["-|-|a|[192.0.2.1", "-|-|b|c"]),
        // The commas of a route separate nothing (RFC 5322 §4.4).
        ("A <@r,@s:a@b.c, d@e.f", vec!["A|@r,@s|a|b.c", "-|-|d|e.f"]),
        ("A <@r,, (c) @s:a@b.c>, d@e.f", vec!["A|@r,,@s|a|b.c", "-|-|d|e.f"]),
        ("A <@r,:a@b.c>", vec!["A|@r,|a|b.c"]),
        ("A <@r, B <d@e.f>", vec!["A|-||r", "B|-|d|e.f"]),
        ("A <mailto:a@b.c>, d@e.f", vec!["A|-|mailto:a|b.c", "-|-|d|e.f"]),
    ] {
        assert_eq!(shown(&address_list(value.as_bytes())), expected, "{value:?}");
    }
}

#[test]
fn envelope_defaults() {
    let header = b"From: a@b\r\nSender: \r\nTo: c@d\r\nTo: e@f\r\nSubject: one\r\nSubject: two\r\n\r\n";
    let envelope = Envelope::of(header, HeaderFields::new(header, Span::new(0, header.len() as u32)));
    assert_eq!((&envelope.sender, &envelope.reply_to), (&None, &None), "they are what From is");
    assert_eq!(shown(&envelope.to), ["-|-|c|d", "-|-|e|f"]);
    assert_eq!(envelope.subject.as_deref(), Some(&b"two"[..]), "the last counts");
    assert_eq!((envelope.date, envelope.cc.len()), (None, 0));
}

#[test]
fn parameters() {
    for (value, expected) in [
        ("attachment; filename=\"a.txt\"", "a.txt"),
        ("attachment; FILENAME = a b.txt ; size=1", "a b.txt"),
        ("attachment; filename*=utf-8'en'%C3%BC.txt", "ü.txt"),
        ("attachment; filename*0=\"long \"; filename*1=name", "long name"),
        ("attachment; filename*1*=%BC.txt; filename*0*=utf-8''%C3", "ü.txt"),
        ("attachment; filename=\"=?utf-8?q?=C3=BC?=.txt\"", "ü.txt"),
        ("attachment; filename=a.txt (a comment)", "a.txt"),
        ("attachment;\r\n\tfilename=\"folded\r\n name\"", "folded name"),
        ("attachment; filename=\"open", "open"),
        ("attachment; filename=\"a;b\"", "a;b"),
        ("(c) attachment (d); x; =y; filename=z", "z"),
    ] {
        let disposition = Disposition::parse(value.as_bytes()).unwrap();
        assert_eq!(disposition.kind.as_ref(), b"attachment");
        assert_eq!(disposition.params.decoded("filename").as_deref(), Some(expected), "{value:?}");
    }
}

#[test]
fn search_texts_are_decoded_and_folded() {
    let message =
        b"Subject: =?iso-8859-1?q?GR=DC=DFE?= an Alle\r\nFrom: =?utf-8?q?J=C3=BCrgen?= <J@X.org>\r\n\
                    To: a@x\r\nTo: b@x\r\nCc: C <c@x>\r\nBcc: d@x\r\n\r\n";
    let record = record(message);
    let summary = SummaryRef::new(&record).unwrap();
    assert!(SearchKey::new("grüsse AN").is_in(summary.subject_folded()));
    assert!(SearchKey::new("JÜRGEN <j@x").is_in(summary.from_folded()));
    assert_eq!(summary.to_folded(), b"a@x, b@x");
    assert_eq!((summary.cc_folded(), summary.bcc_folded()), (&b"c <c@x>"[..], &b"d@x"[..]));
    assert_eq!(
        (summary.sort_from(), summary.sort_to(), summary.sort_cc()),
        (&b"j"[..], &b"a"[..], &b"c"[..])
    );
    assert!(SearchKey::new("").is_in(b""));
    assert!(!SearchKey::new("x").is_in(b""));
}

/// Records of earlier programs do not say that their folded texts lost nothing.
#[test]
fn header_texts_are_compared_exactly_in_every_record() {
    let message = "Subject: stra\u{df}e\r\n  zwei  \u{fb01}n\r\nFrom: \"A  B\" <s\u{df}@x>\r\nTo: c\td@x\r\n\
                   Cc: one, (x) two@x\r\n\r\n";
    let plain = "Subject: Stra\u{df}e, Gr\u{fc}n\r\nTo: A B <a@x>\r\n\r\n".replace('\u{df}', "ss");
    for (message, is_exact) in [(message, false), (plain.as_str(), true)] {
        let new = record(message.as_bytes());
        assert_eq!(SummaryRef::new(&new).unwrap().has_exact_texts(), is_exact);
        let mut old = new.clone();
        old[2] &= !64;
        for record in [new, old] {
            let summary = SummaryRef::new(&record).unwrap();
            let is_in = |text, key: &str| SearchKey::new(key).is_in_envelope(text, &summary);
            let subject = |key| is_in(EnvelopeText::Subject, key);
            if is_exact {
                assert!(subject("strasse, GRÜN") && !subject("straße") && !subject("strasse,  g"));
                assert!(is_in(EnvelopeText::To, "a b <A@X>") && !is_in(EnvelopeText::To, "a  b"));
            } else {
                assert!(subject("STRAßE  ZWEI  ") && !subject("strasse") && !subject("zwei ﬁ"));
                assert!(subject("ﬁN") && !subject("fin"));
                assert!(is_in(EnvelopeText::From, "a  b <sß") && !is_in(EnvelopeText::From, "ss@x"));
                assert!(is_in(EnvelopeText::Cc, "two@x") && !is_in(EnvelopeText::Bcc, " "));
            }
            assert!(SearchKey::approximate("STRASSE").is_in_envelope(EnvelopeText::Subject, &summary));
            let (mut subject, mut mailbox) = (Vec::new(), Vec::new());
            order_subject_into(&summary, &mut subject);
            order_mailbox_into(EnvelopeText::From, &summary, &mut mailbox);
            let expected = if is_exact { ("STRASSE, GRU\u{308}N", "") } else { ("STRAßE ZWEI fiN", "Sß") };
            let text = |bytes| String::from_utf8(bytes).unwrap();
            assert_eq!((text(subject).as_str(), text(mailbox).as_str()), expected);
        }
    }
}

/// Earlier programs stored the marks of a letter in the order of Unicode's decomposition.
#[test]
fn marks_are_compared_in_the_order_of_the_text_in_every_record() {
    let new = record("Subject: Vi\u{ea}\u{323}t\r\n\r\n".as_bytes());
    let mut old = new.clone();
    old[2] &= !64;
    let [stored, before] = ["e\u{302}\u{323}", "e\u{323}\u{302}"].map(str::as_bytes);
    let is_stored = |at: &usize| old[*at..].starts_with(stored);
    let places: Vec<usize> = (0..old.len()).filter(is_stored).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| old[*at..*at + before.len()].copy_from_slice(before));
    for record in [new, old] {
        let summary = SummaryRef::new(&record).unwrap();
        let is_in = |key: &str| SearchKey::new(key).is_in_envelope(EnvelopeText::Subject, &summary);
        assert!(is_in("vi\u{ea}") && is_in("\u{ea}\u{323}T") && is_in("vi") && !is_in("vi\u{1ec7}t"));
        assert!(
            SearchKey::approximate("VI\u{1ec7}T").is_in_envelope(EnvelopeText::Subject, &summary),
            "with the marks in any order"
        );
        let mut is_tapped = false;
        tap_envelope(&summary, &mut |text| is_tapped |= text == "vie\u{302}\u{323}t".as_bytes());
        assert!(is_tapped);
    }
}

#[test]
fn sort_and_thread_keys() {
    let message = b"Subject: Re: [list] Lunch (fwd)\r\nMessage-ID: <c@x>\r\nIn-Reply-To: <b@x>\r\n\
                    References: <a@x>\r\n <b@x>\r\nDate: Fri, 20 Nov 2026 23:30:00 -0500\r\n\r\n";
    let record_of_reply = record(message);
    let reply = SummaryRef::new(&record_of_reply).unwrap();
    let record_of_first = record(b"Subject: lunch\r\nMessage-ID: <\"b\"@x>\r\n\r\n");
    let first = SummaryRef::new(&record_of_first).unwrap();
    assert_eq!(reply.base_subject(), first.base_subject());
    assert!(reply.is_reply() && !first.is_reply());
    assert_eq!(reply.reference_hashes().last(), first.message_id_hash());
    assert_eq!(reply.reference_hashes().count(), 2);
    let sent = reply.sent().unwrap();
    assert_eq!((sent.unix_s, i64::from(sent.local_day)), (1_795_235_400, 1_795_235_400 / 86_400 - 1));
    assert_eq!(first.sent(), None);
}

#[test]
fn previews() {
    for (message, preview) in [
        ("Subject: x\n\n", ""),
        ("\nHello,\n\n  world.\n", "Hello, world."),
        (
            "Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=utf-8\n\nR3LDvMOfZQ==\n",
            "Grüße",
        ),
        (
            "Content-Type: text/html\n\n<html><head><title>T</title><style>p {}</style></head><p>One</p>&amp;&nbsp;two<!-- x -->",
            "One & two",
        ),
        // Tags within a word are no blanks; entities have many names.
        (
            "Content-Type: text/html\n\n<p>M&uuml;n<b class=x>ch</B>e<!-- x -->n</p>a<br>b<SPAN>&#8364;</span>&none;&",
            "München a b€&none;&",
        ),
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>html\n--b\n\
             Content-Disposition: attachment\n\nnot this\n--b\n\nbut this\n--b--\n",
            "but this",
        ),
        // Where all texts are attachments, there is nothing else to see.
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: image/png\n\nx\n--b\n\
             Content-Type: text/html\nContent-Disposition: attachment\n\n<p>html\n--b\n\
             Content-Disposition: attachment; filename=a.txt\n\nplain text\n--b--\n",
            "plain text",
        ),
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n\n--b\n\
             Content-Disposition: attachment\n\nnot this\n--b--\n",
            "",
        ),
    ] {
        let message = message.replace('\n', "\r\n");
        let record = record(message.as_bytes());
        assert_eq!(SummaryRef::new(&record).unwrap().preview(), preview, "{message:?}");
    }
    let long = format!("\r\n{}", "ü ".repeat(4000));
    let record = record(long.as_bytes());
    let preview = SummaryRef::new(&record).unwrap().preview().to_owned();
    assert_eq!((preview.chars().count(), preview.contains('\u{fffd}')), (199, false));
}

#[test]
fn bodies_are_searched_as_text() {
    let message = "Subject: outer\r\nX-Trace: secret\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\npreamble\r\n--b\r\n\
                   Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: base64\r\n\r\nR3L83w0KZSBh\r\n\
                   --b\r\nContent-Type: image/png; name=pict\r\n\r\npixels\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n\
                   Subject: =?utf-8?q?inn=C3=A9r?=\r\n\r\nnested text\r\n--b--\r\n";
    let record = record(message.as_bytes());
    let summary = SummaryRef::new(&record).unwrap();
    for (key, in_body, in_text) in [
        ("grüss E A", true, true),
        ("subject: innér", true, true),
        ("nested TEXT", true, true),
        ("outer", false, true),
        ("x-trace: secret", false, true),
        ("name=pict", false, true),
        ("pixels", false, false),
        ("R3L83", false, false),
        ("", true, true),
    ] {
        let key_made = SearchKey::new(key);
        assert_eq!(key_made.is_in_body(message.as_bytes(), &summary), in_body, "{key}");
        assert_eq!(key_made.is_in_text(message.as_bytes(), &summary), in_text, "{key}");
    }
}

#[test]
fn a_header_has_so_many_fields_and_octets() {
    let with_fields = |count: usize, line: &str, body: &str| format!("{}{body}", line.repeat(count));
    for line in ["a: b\r\n", "a\n", ":\r\n\tb\r\n\tc\r\n"] {
        for body in ["", "\r\nx\r\n", "\n", "\r\n"] {
            assert!(is_header_bounded(with_fields(HEADER_FIELDS_MAX, line, body).as_bytes()), "{line:?}");
            assert!(
                !is_header_bounded(with_fields(HEADER_FIELDS_MAX + 1, line, body).as_bytes()),
                "{line:?}"
            );
        }
    }
    for line in ["", "a: b\r\n"] {
        let body = "a\n".repeat(HEADER_FIELDS_MAX * 100);
        assert!(is_header_bounded(format!("{line}\r\n{body}").as_bytes()), "lines of a body are no fields");
    }
    let of_octets = |octets: usize, body: &str| format!("{}\r\n{body}", "x".repeat(octets - 2));
    for body in ["", "\r\n", "\r\nx"] {
        assert!(is_header_bounded(of_octets(HEADER_LEN_MAX - 2, body).as_bytes()));
        assert!(!is_header_bounded(of_octets(HEADER_LEN_MAX + 2, body).as_bytes()));
    }
    // One field may be folded into many lines.
    let folded = format!("a: b\r\n{}\r\n", " c\r\n".repeat(HEADER_FIELDS_MAX * 2));
    assert!(is_header_bounded(folded.as_bytes()));
}

#[test]
fn a_header_is_long_if_it_has_no_end_in_its_first_octets() {
    let of_octets = |octets: usize, body: &str| format!("{}\r\n{body}", "x".repeat(octets - 2));
    for blank in ["\r\n", "\n"] {
        let last = HEADER_LEN_SHORT - blank.len();
        let body = format!("{blank}{}", "\n".repeat(HEADER_LEN_SHORT));
        assert!(!has_long_header(of_octets(last, &body).as_bytes()));
        assert!(has_long_header(of_octets(last + 1, &body).as_bytes()));
    }
    assert!(!has_long_header(of_octets(HEADER_LEN_SHORT, "").as_bytes()), "all of it is short");
    assert!(has_long_header(of_octets(HEADER_LEN_SHORT, "x").as_bytes()));
    // The bound of fields is no part of it.
    assert!(has_long_header(" \n".repeat(HEADER_LEN_SHORT).as_bytes()));
    let short = of_octets(100, "\r\nbody");
    assert!(has_header_over(short.as_bytes(), 101) && !has_header_over(short.as_bytes(), 102));
}
