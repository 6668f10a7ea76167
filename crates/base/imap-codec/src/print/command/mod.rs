//! Commands, for a client: RFC 9051 §6. A client must wait before most literals, so the output
//! marks these places.

mod mailbox;
mod message;

use posthaste_mail_model::Flag;

use super::{fits_quotes, number};
use crate::chars::is_astring_char;
use crate::command::{Command, CommandBody};
use crate::limits::LITERAL_MINUS_BYTES_MAX;
use crate::{Bound, MailboxArg, NameEncoding, Numbering, SequenceSet, SetRange};

pub(super) use mailbox::selection_names;

/// The literals that may be sent without waiting: RFC 7888.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LiteralStyle {
    /// No literal: the server must invite each one.
    #[default]
    Sync,
    /// Literals of up to 4,096 bytes: LITERAL-.
    Minus,
    /// All: LITERAL+.
    Plus,
}

/// Whether a literal may hold NUL (RFC 3516 §4.4).
#[derive(Clone, Copy)]
enum LiteralForm {
    Literal,
    Literal8,
}

/// The bytes of a command and where to pause in them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncodedCommand {
    /// The bytes of the whole command, line end included.
    pub bytes: Vec<u8>,
    /// Rising offsets before which the client waits for `+`; empty when all can go at once.
    pub waits: Vec<usize>,
}

impl EncodedCommand {
    /// The pieces between the pauses: send one, wait for `+`, send the next.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.waits.iter().copied());
        let ends = self.waits.iter().copied().chain(std::iter::once(self.bytes.len()));
        starts.zip(ends).filter_map(|(start, end)| self.bytes.get(start..end))
    }
}

/// Prints a command.
pub fn command(command: &Command, names: NameEncoding, style: LiteralStyle) -> EncodedCommand {
    let mut p = CommandPrinter { out: Vec::with_capacity(64), waits: Vec::new(), names, style };
    p.put(command.tag.as_str());
    p.put(" ");
    p.body(&command.body);
    p.put("\r\n");
    EncodedCommand { bytes: p.out, waits: p.waits }
}

pub(in crate::print) struct CommandPrinter {
    out: Vec<u8>,
    waits: Vec<usize>,
    names: NameEncoding,
    style: LiteralStyle,
}

impl CommandPrinter {
    pub(in crate::print) fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(in crate::print) fn number(&mut self, n: u64) {
        number(&mut self.out, n);
    }

    fn literal(&mut self, bytes: &[u8], form: LiteralForm) {
        let follows = match self.style {
            LiteralStyle::Sync => false,
            LiteralStyle::Minus => bytes.len() as u64 <= LITERAL_MINUS_BYTES_MAX,
            LiteralStyle::Plus => true,
        };
        self.put(match form {
            LiteralForm::Literal => "{",
            LiteralForm::Literal8 => "~{",
        });
        self.number(bytes.len() as u64);
        self.put(if follows { "+}\r\n" } else { "}\r\n" });
        if !follows {
            self.waits.push(self.out.len());
        }
        self.out.extend_from_slice(bytes);
    }

    /// `string`. NUL has no place in one and becomes `?`.
    pub(in crate::print) fn string(&mut self, text: &[u8]) {
        if fits_quotes(text) {
            crate::print::quoted(&mut self.out, text);
        } else if memchr::memchr(0, text).is_none() {
            self.literal(text, LiteralForm::Literal);
        } else {
            let text: Vec<u8> = text.iter().map(|&b| if b == 0 { b'?' } else { b }).collect();
            self.literal(&text, LiteralForm::Literal);
        }
    }

    pub(in crate::print) fn astring(&mut self, text: &[u8]) {
        let atom = !text.is_empty() && text.iter().all(|&b| is_astring_char(b));
        if atom { self.out.extend_from_slice(text) } else { self.string(text) }
    }

    pub(in crate::print) fn sp_astring(&mut self, text: &str) {
        self.put(" ");
        self.astring(text.as_bytes());
    }

    pub(in crate::print) fn sp_mailbox(&mut self, name: &MailboxArg) {
        self.put(" ");
        self.mailbox(name);
    }

    pub(in crate::print) fn mailbox(&mut self, name: &MailboxArg) {
        self.astring(&name.encode(self.names));
    }

    fn words(&mut self, name: &str, words: &[String]) {
        self.put(name);
        words.iter().for_each(|word| self.sp_astring(word));
    }

    pub(in crate::print) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut one: impl FnMut(&mut Self, T),
    ) {
        self.put("(");
        self.spaced(items, &mut one);
        self.put(")");
    }

    pub(in crate::print) fn spaced<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        one: &mut impl FnMut(&mut Self, T),
    ) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.put(" ");
            }
            one(self, item);
        }
    }

    pub(in crate::print) fn set(&mut self, set: &SequenceSet) {
        if set.has_saved() {
            self.put("$");
        }
        for (i, &SetRange { from, to }) in set.ranges().iter().enumerate() {
            if i > 0 || set.has_saved() {
                self.put(",");
            }
            self.bound(from);
            if from != to {
                self.put(":");
                self.bound(to);
            }
        }
    }

    fn bound(&mut self, bound: Bound) {
        match bound {
            Bound::Largest => self.put("*"),
            Bound::Number(n) => self.number(u64::from(n.get())),
        }
    }

    fn flags(&mut self, flags: &[Flag]) {
        self.list(flags, |p, flag| crate::print::flag(&mut p.out, flag));
    }

    pub(in crate::print) fn numbered(&mut self, numbering: Numbering, name: &str) {
        if numbering == Numbering::Uid {
            self.put("UID ");
        }
        self.put(name);
        self.put(" ");
    }

    fn body(&mut self, body: &CommandBody) {
        use CommandBody as B;
        match body {
            B::Capability => self.put("CAPABILITY"),
            B::Noop => self.put("NOOP"),
            B::Logout => self.put("LOGOUT"),
            B::StartTls => self.put("STARTTLS"),
            B::Namespace => self.put("NAMESPACE"),
            B::GetJmapAccess => self.put("GETJMAPACCESS"),
            B::Idle => self.put("IDLE"),
            B::Check => self.put("CHECK"),
            B::Close => self.put("CLOSE"),
            B::Unselect => self.put("UNSELECT"),
            B::Unauthenticate => self.put("UNAUTHENTICATE"),
            B::CompressDeflate => self.put("COMPRESS DEFLATE"),
            B::Authenticate { mechanism, initial } => {
                self.put("AUTHENTICATE ");
                self.put(mechanism);
                if let Some(initial) = initial {
                    self.initial_response(initial.expose());
                }
            }
            B::Login { user, password } => {
                self.put("LOGIN");
                self.sp_astring(user);
                self.put(" ");
                self.astring(password.expose());
            }
            B::Id(pairs) => self.id(pairs.as_deref()),
            B::Enable(capabilities) => {
                self.put("ENABLE ");
                self.spaced(capabilities, &mut |p, c: &crate::Capability| p.put(c.as_str()));
            }
            B::UidBatches { size, batches } => {
                self.put("UIDBATCHES ");
                self.number(u64::from(*size));
                if let Some((first, last)) = batches {
                    self.put(" ");
                    self.number(u64::from(*first));
                    self.put(":");
                    self.number(u64::from(*last));
                }
            }
            B::CancelUpdate(tags) => {
                self.put("CANCELUPDATE");
                for tag in tags {
                    self.put(" \"");
                    self.put(tag.as_str());
                    self.put("\"");
                }
            }
            B::Language(words) => self.words("LANGUAGE", words),
            B::Comparator(words) => self.words("COMPARATOR", words),
            B::Expunge { uids: None } => self.put("EXPUNGE"),
            B::Expunge { uids: Some(uids) } => {
                self.put("UID EXPUNGE ");
                self.set(&uids.0);
            }
            other => self.mailbox_command(other),
        }
    }

    fn initial_response(&mut self, bytes: &[u8]) {
        use base64::Engine as _;
        self.put(" ");
        // RFC 4959 §3: `=` means no octets.
        if bytes.is_empty() {
            return self.put("=");
        }
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        self.put(&text);
    }

    fn id(&mut self, pairs: Option<&[(String, Option<String>)]>) {
        self.put("ID ");
        let Some(pairs) = pairs else { return self.put("NIL") };
        self.list(pairs, |p, (name, value)| {
            p.string(name.as_bytes());
            p.put(" ");
            match value {
                Some(value) => p.string(value.as_bytes()),
                None => p.put("NIL"),
            }
        });
    }

    pub(in crate::print) fn value(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.put("NIL"),
            Some(value) if memchr::memchr(0, value).is_some() => {
                self.literal(value, LiteralForm::Literal8);
            }
            Some(value) => self.string(value),
        }
    }
}
