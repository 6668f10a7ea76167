//! Pages of SEARCH and UID FETCH: RFC 9394.

use posthaste_testkit::Wire;

use crate::harness::Server;

#[test]
fn a_page_of_a_search() {
    let server = Server::start();
    server.with_messages(8);
    let mut wire = server.login();
    let capability = wire_capability(&mut wire);
    assert!(capability.split(' ').any(|word| word == "PARTIAL"), "{capability}");
    wire.run("C: s SELECT INBOX\nS~ s OK [READ-WRITE] …");
    wire.run(
        r#"
        C: z STORE 1 +FLAGS.SILENT (\Deleted)
        S: z OK …
        C: z EXPUNGE
        S: * 1 EXPUNGE
        S: z OK …
        C: z STORE 1,3,5:7 +FLAGS.SILENT (\Flagged)
        S: z OK …
        # RFC 9394 §3.1: from the first, and from the last. The range is repeated as it was written.
        C: a UID SEARCH RETURN (PARTIAL 1:3) FLAGGED
        S: * ESEARCH (TAG "a") UID PARTIAL (1:3 2,4,6)
        S: a OK …
        C: b UID SEARCH RETURN (PARTIAL 3:2) FLAGGED
        S: * ESEARCH (TAG "b") UID PARTIAL (3:2 4,6)
        S: b OK …
        C: c UID SEARCH RETURN (PARTIAL -1:-3) FLAGGED
        S: * ESEARCH (TAG "c") UID PARTIAL (-1:-3 6:8)
        S: c OK …
        C: d SEARCH RETURN (PARTIAL -2:-1) ALL
        S: * ESEARCH (TAG "d") PARTIAL (-2:-1 6:7)
        S: d OK …
        # A range that ends beyond the result has what there is; one that begins there has NIL.
        C: e UID SEARCH RETURN (PARTIAL 5:9) FLAGGED
        S: * ESEARCH (TAG "e") UID PARTIAL (5:9 8)
        S: e OK …
        C: f UID SEARCH RETURN (PARTIAL 6:9) FLAGGED
        S: * ESEARCH (TAG "f") UID PARTIAL (6:9 NIL)
        S: f OK …
        C: g UID SEARCH RETURN (PARTIAL -8:-9) ALL
        S: * ESEARCH (TAG "g") UID PARTIAL (-8:-9 NIL)
        S: g OK …
        C: h UID SEARCH RETURN (PARTIAL 1:2 MIN MAX COUNT) FLAGGED
        S: * ESEARCH (TAG "h") UID MIN 2 MAX 8 COUNT 5 PARTIAL (1:2 2,4)
        S: h OK …
        # One PARTIAL or one ALL.
        C: i SEARCH RETURN (PARTIAL 1:5 ALL) ALL
        S: i BAD …
        C: j SEARCH RETURN (PARTIAL 1:5 PARTIAL 6:9) ALL
        S: j BAD …
        C: k SEARCH RETURN (PARTIAL 1:*) ALL
        S: k BAD …
        C: l SEARCH RETURN (PARTIAL -1:5) ALL
        S: l BAD …
        C: m SEARCH RETURN (PARTIAL 0:5) ALL
        S: m BAD …
        "#,
    );
}

/// RFC 9394 §3.2.
#[test]
fn a_saved_page_contains_only_its_messages() {
    let server = Server::start();
    server.with_messages(6);
    server.select("INBOX").run(
        r#"
        C: a UID SEARCH RETURN (SAVE PARTIAL 2:3) ALL
        S: * ESEARCH (TAG "a") UID PARTIAL (2:3 2:3)
        S: a OK …
        C: b SEARCH $
        S: * SEARCH 2 3
        S: b OK …
        C: c UID SEARCH RETURN (SAVE PARTIAL -2:-2 MIN) ALL
        S: * ESEARCH (TAG "c") UID MIN 1 PARTIAL (-2:-2 5)
        S: c OK …
        C: d SEARCH $
        S: * SEARCH 1 5
        S: d OK …
        C: e UID SEARCH RETURN (SAVE PARTIAL 2:3 MIN MAX) ALL
        S: * ESEARCH (TAG "e") UID MIN 1 MAX 6 PARTIAL (2:3 2:3)
        S: e OK …
        C: f SEARCH $
        S: * SEARCH 1 2 3 6
        S: f OK …
        C: g UID SEARCH RETURN (SAVE PARTIAL 2:3 COUNT) ALL
        S: * ESEARCH (TAG "g") UID COUNT 6 PARTIAL (2:3 2:3)
        S: g OK …
        C: h SEARCH $
        S: * SEARCH 1 2 3 4 5 6
        S: h OK …
        "#,
    );
}

/// RFC 9394 §3.3.
#[test]
fn a_page_of_a_fetch() {
    let server = Server::start();
    server.with_messages(7);
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    two.run("C: a STORE 3 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 3 EXPUNGE\nS: b OK …");
    one.run(
        r#"
        C: n NOOP
        S: * 3 EXPUNGE
        S: n OK …
        C: a UID FETCH 2:* (UID) (PARTIAL 1:2)
        S: * 2 FETCH (UID 2)
        S: * 3 FETCH (UID 4)
        S: a OK …
        C: b UID FETCH 1:6 RFC822.SIZE (PARTIAL -1:-2)
        S: * 4 FETCH (UID 5 RFC822.SIZE …)
        S: * 5 FETCH (UID 6 RFC822.SIZE …)
        S: b OK …
        C: c UID FETCH 1,3,5:5000 UID (PARTIAL 3:100)
        S: * 5 FETCH (UID 6)
        S: * 6 FETCH (UID 7)
        S: c OK …
        C: d UID FETCH 1:* UID (PARTIAL 7:9)
        S: d OK …
        C: e UID FETCH 8:4294967295 UID (PARTIAL 1:9)
        S: e OK …
        C: f UID SEARCH RETURN (SAVE) UID 4:6
        S: f OK …
        C: g UID FETCH $ UID (PARTIAL -2:-3)
        S: * 3 FETCH (UID 4)
        S: * 4 FETCH (UID 5)
        S: g OK …
        C: h FETCH 1:* UID (PARTIAL 1:2)
        S: h BAD …
        C: i UID FETCH 1:* UID (PARTIAL 1:2 PARTIAL 1:2)
        S: i BAD …
        C: j UID FETCH 1:* UID (PARTIAL 1:*)
        S: j BAD …
        "#,
    );
}

/// The page is cut, then CHANGEDSINCE leaves out unchanged messages; VANISHED is about the whole
/// set (RFC 7162 §3.2.6).
#[test]
fn a_page_of_changes() {
    let server = Server::start();
    server.with_messages(5);
    let mut wire = server.login();
    wire.run("C: e ENABLE QRESYNC\nS: * ENABLED QRESYNC\nS: e OK …");
    wire.run("C: s SELECT INBOX\nS~ s OK [READ-WRITE] …");
    wire.run(
        r#"
        C: a UID STORE 1,4 +FLAGS.SILENT (\Seen)
        S: * 1 FETCH (UID 1 MODSEQ (…))
        S: * 4 FETCH (UID 4 MODSEQ (…))
        S: a OK …
        C: b UID STORE 2 +FLAGS.SILENT (\Deleted)
        S: * 2 FETCH (UID 2 MODSEQ (…))
        S: b OK …
        C: c UID EXPUNGE 2
        S: * VANISHED 2
        S: c OK [HIGHESTMODSEQ …] …
        C: d UID FETCH 1:* (FLAGS) (PARTIAL -1:-2 CHANGEDSINCE 5 VANISHED)
        S: * VANISHED (EARLIER) 2
        S: * 3 FETCH (UID 4 FLAGS (…) MODSEQ (…))
        S: d OK …
        "#,
    );
}

/// Pages of any criterion are slices of the whole result.
#[test]
fn pages_are_slices() {
    let server = Server::start();
    server.with_messages(70);
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 3,30:41,66 +FLAGS.SILENT (\\Flagged)\nS: a OK …");
    for keys in ["ALL", "FLAGGED", "UNFLAGGED", "SUBJECT 7", "BODY \"6.\"", "UID 9:44 NOT FLAGGED", "OR 2 69"]
    {
        let whole = numbers(&mut wire, &format!("UID SEARCH RETURN (ALL) {keys}"), " ALL ");
        let count = whole.len();
        for (from, to) in [(1, 1), (2, 5), (1, 70), (12, 14), (60, 90)] {
            let page = |from: usize, to: usize| whole[from.min(count)..to.min(count)].to_vec();
            let first = format!("UID SEARCH RETURN (PARTIAL {from}:{to}) {keys}");
            let found = numbers(&mut wire, &first, &format!(" PARTIAL ({from}:{to} "));
            assert_eq!(found, page(from - 1, to), "{first}");
            let last = format!("UID SEARCH RETURN (PARTIAL -{from}:-{to}) {keys}");
            let found = numbers(&mut wire, &last, &format!(" PARTIAL (-{from}:-{to} "));
            assert_eq!(found, page(count.saturating_sub(to), (count + 1).saturating_sub(from)), "{last}");
        }
    }
}

/// A search for a page opens the bodies of the messages up to that page only.
#[test]
fn a_full_page_ends_the_search() {
    let server = Server::start();
    server.with_messages(70);
    let mut wire = server.select("INBOX");
    let opened = |wire: &mut Wire, range: &str| {
        let before = server.service().messages_searched();
        wire.send(format!("a SEARCH RETURN (PARTIAL {range}) BODY \"Body\"\r\n").as_bytes());
        wire.skip_to("a OK …");
        server.service().messages_searched() - before
    };
    assert_eq!(opened(&mut wire, "1:1"), 16);
    assert_eq!(opened(&mut wire, "-2:-3"), 16);
    assert_eq!(opened(&mut wire, "1:20"), 20);
    assert_eq!(opened(&mut wire, "1:100"), 70);
}

fn wire_capability(wire: &mut Wire) -> String {
    wire.send(b"a CAPABILITY\r\n");
    wire.skip_to("a OK …").first().cloned().unwrap_or_default()
}

/// The numbers of an ESEARCH after these words.
fn numbers(wire: &mut Wire, command: &str, before: &str) -> Vec<u32> {
    wire.send(format!("a {command}\r\n").as_bytes());
    let lines = wire.skip_to("a OK …");
    let Some((_, set)) = lines[0].split_once(before) else { return Vec::new() };
    let set = set.trim_end_matches(')');
    if set == "NIL" {
        return Vec::new();
    }
    let range = |part: &str| {
        let (low, high) = part.split_once(':').unwrap_or((part, part));
        low.parse::<u32>().expect("a number")..=high.parse().expect("a number")
    };
    set.split(',').flat_map(range).collect()
}
