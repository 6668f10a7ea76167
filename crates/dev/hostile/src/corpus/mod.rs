//! Small messages that are hostile by their form. Each has a trick of its own, at the edges of the
//! grammars of mail or beyond them (RFC 5322, RFC 2045 to RFC 2047, RFC 2231).
//!
//! | module | tricks with |
//! | --- | --- |
//! | `lines` | octets, line ends, and where a header ends |
//! | `fields` | addresses, dates, encoded words, identifiers |
//! | `parts` | boundaries, nested messages, media types and parameters |
//! | `content` | transfer encodings, charsets, archives, HTML |

mod content;
mod fields;
mod lines;
mod made;
mod parts;

/// One of them.
#[derive(Clone, Debug)]
pub struct HostileMessage {
    /// Its trick, in a few words.
    pub name: &'static str,
    /// The whole message.
    pub octets: Vec<u8>,
}

/// All of them. They are the same each time.
pub fn hostile_messages() -> Vec<HostileMessage> {
    let all = [lines::all(), fields::all(), parts::all(), content::all()];
    all.into_iter().flatten().map(|(name, octets)| HostileMessage { name, octets }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_message_is_small_and_no_other_one() {
        const OCTETS_MAX: usize = 512 << 10;
        let messages = hostile_messages();
        assert!(messages.len() > 100, "{}", messages.len());
        let names: BTreeSet<_> = messages.iter().map(|message| message.name).collect();
        let octets: BTreeSet<_> = messages.iter().map(|message| &message.octets).collect();
        assert_eq!((names.len(), octets.len()), (messages.len(), messages.len()));
        let large = messages.iter().find(|message| !(1..=OCTETS_MAX).contains(&message.octets.len()));
        assert!(large.is_none(), "{:?}", large.map(|message| message.name));
    }
}
