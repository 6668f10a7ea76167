//! The table of capabilities in `docs/rfc.md` against what the server announces, in each state.

use std::collections::BTreeSet;

use posthaste_directory::AccountChange;
use posthaste_imap_server::ImapOptions;
use posthaste_testkit::Wire;

use crate::harness::{Server, USER};

const DOCUMENT: &str = include_str!("../../../../../docs/rfc.md");

/// A row of the table: the words of its first column, what is here, and whether another server has
/// it.
struct Row {
    words: Vec<&'static str>,
    here: &'static str,
    has_a_peer: bool,
}

/// The text between two headings.
fn section(from: &str, to: &str) -> &'static str {
    DOCUMENT.split_once(from).and_then(|(_, rest)| rest.split_once(to)).expect("headings").0
}

fn rows() -> Vec<Row> {
    let table = section("### Capabilities of IMAP", "\nNot offered:");
    // Behind the heading and the line below it.
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, _, here, peers @ ..] = cells.as_slice() else { panic!("{line}") };
        let words = names.split([' ', '/']).filter(|word| !matches!(*word, "" | "+"));
        Row { words: words.collect(), here, has_a_peer: peers.iter().any(|peer| *peer != "–") }
    });
    rows.collect()
}

fn announced(wire: &mut Wire) -> BTreeSet<String> {
    wire.send(b"c CAPABILITY\r\n");
    let lines = wire.skip_to("c OK …");
    let line = lines.iter().find_map(|line| line.strip_prefix("* CAPABILITY ")).expect("capabilities");
    line.split(' ').map(str::to_owned).collect()
}

/// Before and after the login.
fn all(options: ImapOptions) -> BTreeSet<String> {
    let server = Server::start_with(options);
    server.limit(AccountChange { sets_quotas: Some(true), ..AccountChange::default() });
    let mut before = announced(&mut server.connect());
    before.append(&mut announced(&mut server.login_as(USER)));
    before
}

/// Whether a word of the table is announced: `RES-*` by its beginning, `RIGHTS=` with a value.
fn is_in(announced: &BTreeSet<String>, word: &str) -> bool {
    let stem = word.trim_end_matches('*');
    announced.iter().any(|capability| match capability.strip_prefix(stem) {
        Some(rest) => rest.is_empty() || rest.starts_with('=') || stem.ends_with(['=', '-']),
        None => false,
    })
}

#[test]
fn the_table_says_what_is_announced() {
    let plain = all(ImapOptions::default());
    let full = all(ImapOptions {
        annotations: true,
        gmail: true,
        jmap_url: Some("https://jmap.example.org/".to_owned()),
        message_limit: 500,
        ..ImapOptions::default()
    });
    let rows = rows();
    assert!(rows.len() > 70, "{}", rows.len());
    let refused = section("\nNot offered:", "### Deliberate deviations of IMAP");
    for Row { words, here, has_a_peer } in &rows {
        for word in words {
            match *here {
                "yes" => assert!(is_in(&plain, word), "{word} is not announced"),
                "LITERAL+ includes it" => assert!(is_in(&plain, "LITERAL+"), "{word}"),
                // Needs ManageSieve, or is only one of the two limits: their tests show them.
                _ if matches!(*word, "IMAPSIEVE=" | "SAVELIMIT=") => {}
                _ if here.starts_with("if ") || here.starts_with("for accounts") => {
                    assert!(is_in(&full, word), "{word} is not announced");
                }
                _ if here.starts_with("yes; ") => assert!(is_in(&plain, word), "{word} is not announced"),
                "no: see below" => {
                    assert!(!is_in(&full, word), "{word} is announced");
                    assert!(!has_a_peer || refused.contains(word), "{word} has no reason");
                }
                other => panic!("{word}: {other}"),
            }
        }
    }
    // All that is announced is in the table, except what belongs to the login or to a row.
    let known: Vec<&str> = rows.iter().flat_map(|row| row.words.iter().copied()).collect();
    for capability in &full {
        let is_known = known.iter().any(|word| is_in(&BTreeSet::from([capability.clone()]), word));
        let of_login =
            capability.starts_with("AUTH=") || matches!(&**capability, "STARTTLS" | "LOGINDISABLED");
        // RFC 9051 §6.3.11 and RFC 9208 §4.1.4 define the item of STATUS.
        assert!(is_known || of_login || capability == "STATUS=DELETED", "{capability} is not in the table");
    }
}
