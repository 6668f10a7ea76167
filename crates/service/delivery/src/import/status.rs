//! Flags that mbox files keep in header fields of each message. They belong to the file, not to the
//! message, and are taken out of it.
//!
//! | field | written by | meaning |
//! | --- | --- | --- |
//! | `Status` | all | `R` seen, `O` not new |
//! | `X-Status` | mutt, Dovecot, Pine | `A` answered, `F` flagged, `T` draft, `D` deleted |
//! | `X-Keywords` | Dovecot, Pine | keywords, spaces between them |
//! | `X-Mozilla-Status` | Thunderbird | hexadecimal: 1 seen, 2 answered, 4 flagged, 8 deleted, 1000 forwarded |
//! | `X-Mozilla-Keys` | Thunderbird | keywords |
//! | `X-Mozilla-Status2`, `X-UID`, `X-IMAPbase`, `X-IMAP` | | nothing for us |

use posthaste_mail_model::{Flag, Keyword};

use crate::format::lines;

/// Flags of a message after which no more keywords are read: twice as many as a mailbox can hold,
/// so the import reports that some are left out. Each is compared with those before it. A header
/// of 50 MB can name millions of keywords, and would take days.
const FLAGS_MAX: usize = 128;

#[derive(Clone, Copy)]
enum Field {
    Letters,
    Keywords,
    Mozilla,
    Passed,
}

const FIELDS: [(&str, Field); 9] = [
    ("Status", Field::Letters),
    ("X-Status", Field::Letters),
    ("X-Keywords", Field::Keywords),
    ("X-Mozilla-Status", Field::Mozilla),
    ("X-Mozilla-Keys", Field::Keywords),
    ("X-Mozilla-Status2", Field::Passed),
    ("X-UID", Field::Passed),
    ("X-IMAPbase", Field::Passed),
    ("X-IMAP", Field::Passed),
];

/// Where a header has the fields of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Only the first ones that follow each other. Others below are the sender's.
    FirstRun,
    /// Any of these fields.
    Anywhere,
}

/// The flags of a header, and the ranges of the message that have them.
pub(super) struct Scan {
    pub flags: Vec<Flag>,
    cuts: Vec<(usize, usize)>,
}

/// Reads the fields of a message's header.
pub(super) fn scan(message: &[u8], place: Place) -> Scan {
    let mut scan = Scan { flags: Vec::new(), cuts: Vec::new() };
    let (mut at, mut inside) = (0, None);
    for line in lines(message) {
        let end = at + line.len();
        let text = line.trim_ascii_end();
        if text.is_empty() {
            break;
        }
        // A line that begins with a space continues with the field above (RFC 5322 §2.2.3).
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            inside = field_of(text);
        }
        if let Some((field, value_at)) = inside {
            read(field, &String::from_utf8_lossy(&text[value_at..]), &mut scan.flags);
            inside = Some((field, 0));
            scan.cuts.push((at, end));
        } else if place == Place::FirstRun && !scan.cuts.is_empty() {
            break;
        }
        at = end;
    }
    scan
}

/// Takes the fields out of a message's header.
pub(super) fn take(message: Vec<u8>, place: Place) -> (Vec<u8>, Vec<Flag>) {
    let Scan { flags, cuts } = scan(&message, place);
    if cuts.is_empty() { (message, flags) } else { (without(&message, &cuts), flags) }
}

/// Whether a message is the one in which Pine and Dovecot keep notes on the folder itself.
pub(super) fn is_folder_data(message: &[u8]) -> bool {
    let header = lines(message).take_while(|line| !line.trim_ascii_end().is_empty());
    header
        .take(40)
        .any(|line| line.starts_with(b"Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA"))
}

fn field_of(line: &[u8]) -> Option<(Field, usize)> {
    // Nearly all fields are different ones, and their first letter is enough to see that.
    if !matches!(line.first(), Some(b'S' | b's' | b'X' | b'x')) {
        return None;
    }
    let colon = line.iter().position(|&b| b == b':')?;
    let name = line.get(..colon)?.trim_ascii_end();
    let (_, field) = FIELDS.iter().find(|(n, _)| n.as_bytes().eq_ignore_ascii_case(name))?;
    Some((*field, colon + 1))
}

fn read(field: Field, value: &str, flags: &mut Vec<Flag>) {
    let mut add = |flag: Flag| {
        let is_full = flags.len() >= FLAGS_MAX && matches!(flag, Flag::Keyword(_));
        if !is_full && !flags.contains(&flag) {
            flags.push(flag);
        }
    };
    match field {
        Field::Letters => value.chars().for_each(|letter| match letter {
            'R' => add(Flag::Seen),
            'A' => add(Flag::Answered),
            'F' => add(Flag::Flagged),
            'T' => add(Flag::Draft),
            'D' => add(Flag::Deleted),
            _ => {}
        }),
        Field::Keywords => value.split_ascii_whitespace().filter_map(keyword).for_each(add),
        Field::Mozilla => {
            let bits = u32::from_str_radix(value.trim(), 16).unwrap_or(0);
            let known = [(1, Flag::Seen), (2, Flag::Answered), (4, Flag::Flagged), (8, Flag::Deleted)];
            known.into_iter().filter(|(bit, _)| bits & bit != 0).for_each(|(_, flag)| add(flag));
            if bits & 0x1000 != 0 {
                keyword("$Forwarded").into_iter().for_each(add);
            }
        }
        Field::Passed => {}
    }
}

/// A keyword; what an atom cannot hold becomes `_`.
pub(super) fn keyword(text: &str) -> Option<Flag> {
    let keyword = Keyword::new(text).or_else(|_| {
        let atom = |c: char| if c.is_ascii_graphic() && !"(){%*\"\\]".contains(c) { c } else { '_' };
        Keyword::new(&text.chars().take(Keyword::LEN_MAX).map(atom).collect::<String>())
    });
    keyword.ok().map(Flag::Keyword)
}

fn without(message: &[u8], cuts: &[(usize, usize)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    let mut from = 0;
    for &(start, end) in cuts {
        out.extend_from_slice(&message[from..start]);
        from = end;
    }
    out.extend_from_slice(&message[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(message: &str) -> (String, Vec<String>) {
        taken_at(message, Place::Anywhere)
    }

    fn taken_at(message: &str, place: Place) -> (String, Vec<String>) {
        let (message, flags) = take(message.as_bytes().to_vec(), place);
        (String::from_utf8(message).unwrap(), flags.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn fields_become_flags_and_go() {
        let (message, flags) = taken(
            "Status: RO\r\nSubject: x\r\nX-Status: AF\r\nX-Keywords: $Junk a(b\r\n\tmore\r\nX-UID: 7\r\n\r\nStatus: D\r\n",
        );
        assert_eq!(message, "Subject: x\r\n\r\nStatus: D\r\n");
        assert_eq!(flags, ["\\Seen", "\\Answered", "\\Flagged", "$Junk", "a_b", "more"]);
        let (message, flags) =
            taken("X-Mozilla-Status: 1003\nX-Mozilla-Status2: 00\nX-Mozilla-Keys:    \nA: b\n\n");
        assert_eq!(
            (message.as_str(), flags),
            ("A: b\n\n", vec!["\\Seen".into(), "\\Answered".into(), "$Forwarded".into()])
        );
    }

    #[test]
    fn fields_below_the_first_ones_are_the_senders() {
        let own = "Received: x\nX-Status: D\nX-Mozilla-Status: 0008\nStatus: R\n\n";
        let (message, flags) =
            taken_at(&format!("Status: O\nX-Status: F\nX-Keywords: a\n b\n{own}"), Place::FirstRun);
        assert_eq!((message.as_str(), flags), (own, vec!["\\Flagged".into(), "a".into(), "b".into()]));
        let (message, flags) =
            taken_at(&format!("X-Account-Key: a\nX-Mozilla-Status: 0001\n{own}"), Place::FirstRun);
        assert_eq!((message, flags), (format!("X-Account-Key: a\n{own}"), vec!["\\Seen".into()]));
    }

    #[test]
    fn a_header_names_a_bounded_number_of_keywords() {
        let words: Vec<String> = (0..10 * FLAGS_MAX).map(|n| format!("k{n}")).collect();
        let (message, flags) = taken(&format!("X-Keywords: {}\nStatus: R\nA: b\n\n", words.join(" ")));
        assert_eq!(message, "A: b\n\n");
        assert_eq!(flags.len(), FLAGS_MAX + 1);
        assert_eq!((flags[0].as_str(), flags[FLAGS_MAX].as_str()), ("k0", "\\Seen"));
        const { assert!(FLAGS_MAX > posthaste_mail_model::KeywordTable::SLOTS, "none is left out") };
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        for message in
            ["", "\r\nStatus: R\r\n", "Subject: Status: R\r\n R\r\n\r\n", "X-Statuses: R\r\n", "S", "Status"]
        {
            assert_eq!(taken(message), (message.to_owned(), vec![]), "{message:?}");
        }
    }
}
