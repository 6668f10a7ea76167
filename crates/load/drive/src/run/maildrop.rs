//! A maildrop as a POP3 client knows it: in one session, and by its unique-ids from one session to
//! the next (RFC 1939 §7).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use posthaste_load_workload::corpus::{Serial, serial_token};

/// The most octets of a unique-id (RFC 1939 §7).
const UID_BYTES_MAX: usize = 70;
/// The most messages of a maildrop. A client has 32 bytes of memory for each.
pub const MESSAGES_MAX: u32 = 1_000_000;

/// The messages that a client has read and left on the server, by a hash of their unique-ids.
#[derive(Debug, Default)]
pub struct Remembered(HashMap<u64, Option<Serial>>);

/// A message in the answer to UIDL.
#[derive(Clone, Copy, Debug)]
struct Listed {
    uid: u64,
    /// The message's serial, once it was retrieved in this session, if it is one of ours.
    read: Option<Option<Serial>>,
    deleted: bool,
}

/// The maildrop in one session.
#[derive(Debug, Default)]
pub struct Maildrop {
    /// STAT: messages and bytes.
    pub stat: Option<(u32, u64)>,
    /// Messages retrieved and not yet deleted, with their serials if they are ours.
    pub retrieved: Vec<(u32, Option<Serial>)>,
    /// The messages marked deleted; the server removes them at QUIT.
    pub deleted: Vec<Serial>,
    /// The answer to UIDL.
    listed: Option<Vec<Listed>>,
}

/// The unique-id in a line `1 whqtswO00WBw418f9t5JxYwZ` for the message with this number.
fn unique_id(line: &[u8], number: u32) -> Option<u64> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let uid = after_number(line, number)?.strip_prefix(b" ")?;
    let fits = (1..=UID_BYTES_MAX).contains(&uid.len()) && uid.iter().all(u8::is_ascii_graphic);
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    fits.then(|| hasher.finish())
}

/// What follows this number, written without zeros before it. A UIDL has one for each message, so
/// no text is made for it.
fn after_number(line: &[u8], number: u32) -> Option<&[u8]> {
    let digits = line.iter().take_while(|octet| octet.is_ascii_digit()).count();
    let (digits, rest) = line.split_at_checked(digits)?;
    let value = digits
        .iter()
        .try_fold(0u32, |value, digit| value.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
    let is_plain = !digits.is_empty() && (digits[0] != b'0' || digits.len() == 1);
    (is_plain && value == Some(number)).then_some(rest)
}

/// Reads the lines of a UIDL.
#[derive(Debug)]
pub struct Uidl {
    listed: Vec<Listed>,
    most: u32,
}

impl Uidl {
    /// One line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let number = self.listed.len() as u32 + 1;
        if number > self.most {
            return Err(format!(
                "UIDL lists message {number}, over {} (the count of STAT, or {MESSAGES_MAX} without it)",
                self.most
            ));
        }
        let Some(uid) = unique_id(line, number) else {
            let shown: String = String::from_utf8_lossy(line).trim_end().chars().take(100).collect();
            return Err(format!("`{shown}` is not the line of UIDL for message {number}"));
        };
        self.listed.push(Listed { uid, read: None, deleted: false });
        Ok(())
    }
}

impl Maildrop {
    /// Begins to read a UIDL. It lists as many messages as STAT has.
    pub fn uidl(&self) -> Uidl {
        Uidl { listed: Vec::new(), most: self.stat.map_or(MESSAGES_MAX, |(count, _)| count) }
    }

    /// Whether UIDL was answered in this session.
    pub fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// Takes the answer to UIDL; the number of its messages.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn list(&mut self, uidl: Uidl) -> Result<u32, String> {
        let count = uidl.listed.len() as u32;
        match self.stat {
            Some((stat, _)) if stat != count => Err(format!("UIDL lists {count} messages, STAT has {stat}")),
            _ => {
                self.listed = Some(uidl.listed);
                Ok(count)
            }
        }
    }

    /// The numbers of the messages that the client does not know.
    pub fn unknown(&self, remembered: &Remembered) -> Vec<u32> {
        let listed = self.listed.iter().flatten().zip(1..);
        listed.filter(|(message, _)| !remembered.0.contains_key(&message.uid)).map(|(_, n)| n).collect()
    }

    /// Notes that a message was retrieved.
    ///
    /// # Errors
    /// The unique-id was that of another message in an earlier session.
    pub fn read(
        &mut self,
        remembered: &Remembered,
        number: u32,
        serial: Option<Serial>,
    ) -> Result<(), String> {
        self.retrieved.push((number, serial));
        let Some(message) = self.message(number) else { return Ok(()) };
        message.read = Some(serial);
        let before = remembered.0.get(&message.uid).copied().flatten();
        match (before, serial) {
            (Some(before), Some(now)) if before != now => Err(format!(
                "message {number} is {} and has the unique-id that {} had",
                serial_token(now),
                serial_token(before)
            )),
            _ => Ok(()),
        }
    }

    /// Notes that a message is marked deleted.
    pub fn delete(&mut self, number: u32) {
        if let Some(message) = self.message(number) {
            message.deleted = true;
        }
    }

    fn message(&mut self, number: u32) -> Option<&mut Listed> {
        self.listed.as_mut()?.get_mut(number.checked_sub(1)? as usize)
    }
}

impl Remembered {
    /// Takes over what a session has read and not deleted, once QUIT was answered. Messages that
    /// the server does not list are forgotten: no unique-id is given twice.
    pub fn after(&mut self, session: &Maildrop) {
        let Some(listed) = &session.listed else { return };
        let known = |message: &Listed| {
            let serial = message.read.or_else(|| self.0.get(&message.uid).copied())?;
            (!message.deleted).then_some((message.uid, serial))
        };
        self.0 = listed.iter().filter_map(known).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(uids: &[&str]) -> Maildrop {
        let mut drop = Maildrop { stat: Some((uids.len() as u32, 0)), ..Maildrop::default() };
        let mut uidl = drop.uidl();
        for (uid, number) in uids.iter().zip(1..) {
            uidl.line(format!("{number} {uid}\r\n").as_bytes()).unwrap();
        }
        assert_eq!(drop.list(uidl), Ok(uids.len() as u32));
        drop
    }

    #[test]
    fn messages_read_and_left_on_the_server_are_not_new() {
        let mut remembered = Remembered::default();
        let mut first = session(&["a", "b", "c"]);
        assert_eq!(first.unknown(&remembered), [1, 2, 3]);
        for number in 1..=3 {
            first.read(&remembered, number, Some(u64::from(number))).unwrap();
        }
        first.delete(2);
        remembered.after(&first);
        // Another one arrived, and the second was removed.
        let second = session(&["a", "c", "d"]);
        assert_eq!(second.unknown(&remembered), [3]);
        // A session that reads nothing forgets only what the server does not list.
        remembered.after(&session(&["c", "d"]));
        assert_eq!(session(&["a", "c", "d"]).unknown(&remembered), [1, 3]);
    }

    #[test]
    fn messages_read_without_quit_are_new_again() {
        let remembered = Remembered::default();
        let mut broken = session(&["a"]);
        broken.read(&remembered, 1, None).unwrap();
        assert_eq!(session(&["a"]).unknown(&remembered), [1]);
    }

    #[test]
    fn a_unique_id_of_two_messages_is_a_fault() {
        let mut remembered = Remembered::default();
        let mut first = session(&["a"]);
        first.read(&remembered, 1, Some(7)).unwrap();
        remembered.after(&first);
        assert_eq!(session(&["a"]).read(&remembered, 1, Some(7)), Ok(()));
        let said = session(&["a"]).read(&remembered, 1, Some(8)).unwrap_err();
        assert!(said.contains("has the unique-id that"), "{said}");
    }

    #[test]
    fn a_number_is_read_as_it_is_written() {
        for number in [0, 1, 9, 10, 205, u32::MAX] {
            let line = format!("{number} x");
            assert_eq!(after_number(line.as_bytes(), number), Some(&b" x"[..]), "{number}");
            assert_eq!(after_number(format!("0{number} x").as_bytes(), number), None, "{number}");
            assert_eq!(after_number(format!("{number}0 x").as_bytes(), number), None, "{number}");
            assert_eq!(after_number(b" x", number), None, "{number}");
        }
        assert_eq!(after_number(b"4294967297 x", 1), None);
        assert_eq!(after_number(b"", 0), None);
    }

    #[test]
    fn a_listing_has_each_message_once_and_in_order() {
        let of = |stat: u32, lines: &[&str]| {
            let mut drop = Maildrop { stat: Some((stat, 0)), ..Maildrop::default() };
            let mut uidl = drop.uidl();
            lines.iter().try_for_each(|line| uidl.line(line.as_bytes()))?;
            drop.list(uidl)
        };
        assert_eq!(of(2, &["1 x\r\n", "2 y\r\n"]), Ok(2));
        assert!(of(3, &["1 x\r\n", "2 y\r\n"]).unwrap_err().contains("STAT has 3"));
        assert!(of(1, &["1 x\r\n", "2 y\r\n"]).unwrap_err().contains("message 2, over 1 "));
        assert_eq!(Maildrop::default().uidl().most, MESSAGES_MAX);
        for wrong in ["2 x\r\n", "1  x\r\n", "1 \r\n", "1\r\n", "1 \u{e4}\r\n"] {
            assert!(of(1, &[wrong]).unwrap_err().contains("for message 1"), "{wrong}");
        }
        let long = format!("1 {}\r\n", "x".repeat(UID_BYTES_MAX + 1));
        assert!(of(1, &[&long]).is_err());
    }
}
