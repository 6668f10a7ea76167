//! Commands of IMAP from its grammar (RFC 9051 §9 and the extensions that the server has), with
//! arguments that are sometimes strange. A command is one frame: only literals hold line ends.

use posthaste_testkit::Random;

use super::message::message;

/// Makes commands.
pub struct Grammar<'a> {
    pub(super) random: &'a mut Random,
    out: Vec<u8>,
}

/// A command without its tag, without its line end.
pub fn command(random: &mut Random) -> Vec<u8> {
    let mut grammar = Grammar { random, out: Vec::new() };
    grammar.command();
    grammar.out
}

impl Grammar<'_> {
    pub(super) fn say(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn one_of(&mut self, words: &[&str]) {
        let word = self.random.pick(words);
        self.say(word);
    }

    /// Several, with a separator between them.
    pub(super) fn some(&mut self, most: usize, between: &str, one: fn(&mut Self)) {
        for n in 0..1 + self.random.below(most) {
            if n > 0 {
                self.say(between);
            }
            one(self);
        }
    }

    pub(super) fn listed(&mut self, most: usize, one: fn(&mut Self)) {
        self.say("(");
        self.some(most, " ", one);
        self.say(")");
    }

    fn command(&mut self) {
        match self.random.below(32) {
            24.. => self.extension(),
            0 => self.one_of(&[
                "NOOP",
                "CAPABILITY",
                "NAMESPACE",
                "CHECK",
                "CLOSE",
                "UNSELECT",
                "EXPUNGE",
                "LOGOUT",
                "ID NIL",
                "STARTTLS",
                "IDLE\r\nDONE",
                "ENABLE CONDSTORE QRESYNC",
                "ENABLE UTF8=ACCEPT X",
                "LOGIN a b",
            ]),
            1..=4 => self.select(),
            5 => self.with_mailbox(&["CREATE ", "DELETE ", "SUBSCRIBE ", "UNSUBSCRIBE "]),
            6 => {
                self.with_mailbox(&["RENAME "]);
                self.say(" ");
                self.mailbox();
            }
            7 => self.list(),
            8 => {
                self.with_mailbox(&["STATUS "]);
                self.say(" ");
                self.listed(5, |g| g.one_of(&STATUS));
            }
            9..=11 => self.append(),
            12..=15 => self.fetch(),
            16..=18 => self.search(),
            19..=20 => self.store(),
            21 => {
                self.uid();
                self.one_of(&["COPY ", "MOVE "]);
                self.set();
                self.say(" ");
                self.mailbox();
            }
            22 => {
                self.say("UID EXPUNGE ");
                self.set();
            }
            _ => {
                self.say("ID ");
                self.listed(6, Self::astring);
            }
        }
    }

    pub(super) fn uid(&mut self) {
        self.one_of(&["", "UID "]);
    }

    pub(super) fn with_mailbox(&mut self, verbs: &[&str]) {
        self.one_of(verbs);
        self.mailbox();
    }

    fn select(&mut self) {
        self.with_mailbox(&["SELECT ", "EXAMINE "]);
        if self.random.one_in(3) {
            self.one_of(&[
                " (CONDSTORE)",
                " (QRESYNC (1 1))",
                " (OBJECTID)",
                " (OBJECTID (MAILBOXID F1 ACCOUNTID u1) CONDSTORE)",
                " (QRESYNC (1 18446744073709551615 1:*))",
                " (X)",
            ]);
        } else if self.random.one_in(4) {
            self.say(" (QRESYNC (");
            self.number();
            self.say(" ");
            self.number();
            self.say(" ");
            self.set();
            self.say("))");
        }
    }

    pub(super) fn mailbox(&mut self) {
        match self.random.below(12) {
            0..=4 => self.say("INBOX"),
            5..=8 => self.one_of(&["a", "b", "a/b", "Sent", "&AOQ-", "c/d/e"]),
            9 => {
                let depth = self.random.below(40);
                let name = "x/".repeat(depth) + "x";
                self.say(&name);
            }
            10 => self.one_of(&[
                "\"\"",
                "\"*\"",
                "\"%\"",
                "\"&\"",
                "\"&AAA\"",
                "\"/\"",
                "\"a//b\"",
                "\"#news.x\"",
            ]),
            _ => self.astring(),
        }
    }

    pub(super) fn astring(&mut self) {
        match self.random.below(6) {
            0 => self.one_of(&["a", "b", "zz", "NIL", "]", "a*"]),
            1 => self.one_of(&["\"\"", "\"a b\"", "\"\\\"\\\\\"", "\"\u{fc}\"", "\"&AOQ-\""]),
            2 => {
                let text = "y".repeat(self.random.below(3000));
                self.literal(text.as_bytes());
            }
            3 => self.literal(&[0xff, 0, 0x80, b'\r', b'\n', b')']),
            4 => {
                let text = "%*/".repeat(self.random.below(30));
                self.say(&format!("\"{text}\""));
            }
            _ => self.literal("\u{fdfa}\u{130}\u{df}".as_bytes()),
        }
    }

    /// The octets follow at once: RFC 7888.
    pub(super) fn literal(&mut self, bytes: &[u8]) {
        self.say(&format!("{{{}+}}\r\n", bytes.len()));
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn number(&mut self) {
        match self.random.below(4) {
            0 => self.one_of(&[
                "0",
                "4294967295",
                "4294967296",
                "18446744073709551615",
                "007",
                "99999999999999999999",
            ]),
            _ => {
                let number = self.random.below(30) + 1;
                self.say(&number.to_string());
            }
        }
    }

    pub(super) fn set(&mut self) {
        match self.random.below(8) {
            0 => self.say("$"),
            1 => self.say("1:*"),
            2 => self.say("*"),
            3 => {
                let set = "1,3:2,".repeat(self.random.below(200)) + "*:4";
                self.say(&set);
            }
            _ => self.some(3, ",", |g| {
                g.number();
                if g.random.one_in(2) {
                    g.say(":");
                    g.number();
                }
            }),
        }
    }

    fn flag(&mut self) {
        match self.random.below(5) {
            0 => {
                let keyword = format!("k{}", self.random.below(100));
                self.say(&keyword);
            }
            1 => self.one_of(&["$Forwarded", "$Junk", "\\Recent", "\\*", "\\X"]),
            _ => self.one_of(&["\\Seen", "\\Deleted", "\\Flagged", "\\Answered", "\\Draft"]),
        }
    }

    fn list(&mut self) {
        if self.random.one_in(3) {
            self.say("LSUB \"\" ");
            return self.astring();
        }
        self.say("LIST ");
        if self.random.one_in(2) {
            self.listed(3, |g| g.one_of(&["SUBSCRIBED", "REMOTE", "RECURSIVEMATCH", "SPECIAL-USE"]));
            self.say(" ");
        }
        self.one_of(&["\"\"", "a", "\"a/\""]);
        self.say(" ");
        match self.random.below(3) {
            0 => self.listed(20, |g| g.one_of(&["*", "%", "\"%/%\"", "\"*a*\"", "INBOX", "\"\""])),
            _ => self.one_of(&["*", "%", "\"\"", "\"*%*%*%*\"", "x/%"]),
        }
        if self.random.one_in(2) {
            self.say(" RETURN ");
            self.listed(3, |g| {
                g.one_of(&["SUBSCRIBED", "CHILDREN", "SPECIAL-USE", "STATUS (MESSAGES UIDNEXT SIZE)", "X"]);
            });
        }
    }

    fn append(&mut self) {
        self.with_mailbox(&["APPEND "]);
        for _ in 0..1 + self.random.below(2) {
            self.say(" ");
            if self.random.one_in(2) {
                self.listed(4, Self::flag);
                self.say(" ");
            }
            if self.random.one_in(3) {
                self.one_of(&[
                    "\"01-Jan-2020 10:00:00 +0000\" ",
                    "\" 1-Feb-1970 00:00:00 -1200\" ",
                    "\"99-Xxx-0000 0:0:0 0\" ",
                ]);
            }
            let text = message(self.random);
            match self.random.below(6) {
                0 => {
                    self.say("UTF8 (~");
                    self.literal(&text);
                    self.say(")");
                }
                1 => {
                    self.say("~");
                    self.literal(&text);
                }
                _ => self.literal(&text),
            }
        }
    }

    fn fetch(&mut self) {
        self.uid();
        self.say("FETCH ");
        self.set();
        self.say(" ");
        match self.random.below(5) {
            0 => self.one_of(&["ALL", "FULL", "FAST"]),
            1 => self.fetch_item(),
            2 => self.listed(60, Self::fetch_item),
            _ => self.listed(4, Self::fetch_item),
        }
        if self.random.one_in(4) {
            self.say(" (CHANGEDSINCE ");
            self.number();
            self.one_of(&[")", " VANISHED)"]);
        }
    }

    fn fetch_item(&mut self) {
        match self.random.below(4) {
            0 => {
                self.one_of(&["BODY[", "BODY.PEEK["]);
                self.section();
                self.say("]");
                self.partial();
            }
            1 => {
                self.one_of(&["BINARY[", "BINARY.PEEK["]);
                self.one_of(&["", "1", "2", "1.1", "1.2.1", "99"]);
                self.say("]");
                self.partial();
            }
            _ => self.one_of(&[
                "ENVELOPE",
                "BODY",
                "BODYSTRUCTURE",
                "FLAGS",
                "INTERNALDATE",
                "RFC822",
                "RFC822.HEADER",
                "RFC822.TEXT",
                "RFC822.SIZE",
                "UID",
                "MODSEQ",
                "EMAILID",
                "THREADID",
                "OBJECTID",
                "SAVEDATE",
                "CREATEDMODSEQ",
                "PREVIEW",
                "PREVIEW (LAZY)",
                "BINARY.SIZE[1]",
                "BINARY.SIZE[1.1]",
            ]),
        }
    }

    fn section(&mut self) {
        if self.random.one_in(2) {
            let depth = if self.random.one_in(20) { 200 } else { 4 };
            self.some(depth, ".", |g| g.one_of(&["1", "1", "2", "3", "4294967295"]));
            self.one_of(&["", ".MIME", ".HEADER", ".TEXT"]);
        } else if self.random.one_in(3) {
            self.one_of(&["HEADER.FIELDS ", "HEADER.FIELDS.NOT "]);
            self.listed(10, |g| g.one_of(&["Subject", "From", "To", "X-Own", "\"\"", "References"]));
        } else {
            self.one_of(&["", "HEADER", "TEXT"]);
        }
    }

    fn partial(&mut self) {
        if self.random.one_in(3) {
            self.say("<");
            self.number();
            self.say(".");
            self.number();
            self.say(">");
        }
    }

    fn search(&mut self) {
        self.uid();
        self.say("SEARCH ");
        if self.random.one_in(3) {
            self.say("RETURN ");
            self.one_of(&["()", "(MIN MAX ALL COUNT)", "(SAVE)", "(SAVE MIN)", "(ALL SAVE COUNT)", "(X)"]);
            self.say(" ");
        }
        if self.random.one_in(4) {
            self.one_of(&["CHARSET UTF-8 ", "CHARSET US-ASCII ", "CHARSET KOI8-R "]);
        }
        let most = if self.random.one_in(10) { 200 } else { 4 };
        self.some(most, " ", |g| g.search_key(0));
    }

    pub(super) fn search_key(&mut self, depth: usize) {
        if depth < 40 && self.random.one_in(3) {
            match self.random.below(3) {
                0 => {
                    self.say("NOT ");
                    return self.search_key(depth + 1);
                }
                1 => {
                    self.say("OR ");
                    self.search_key(depth + 10);
                    self.say(" ");
                    return self.search_key(depth + 1);
                }
                _ => {
                    self.say("(");
                    self.search_key(depth + 1);
                    return self.say(")");
                }
            }
        }
        match self.random.below(8) {
            0 => self.one_of(&[
                "ALL",
                "ANSWERED",
                "DELETED",
                "FLAGGED",
                "NEW",
                "OLD",
                "RECENT",
                "SEEN",
                "UNSEEN",
                "UNDRAFT",
                "SAVEDATESUPPORTED",
            ]),
            1 => {
                self.one_of(&[
                    "BCC ",
                    "CC ",
                    "FROM ",
                    "SUBJECT ",
                    "TO ",
                    "BODY ",
                    "TEXT ",
                    "KEYWORD ",
                    "UNKEYWORD ",
                ]);
                self.astring();
            }
            2 => {
                self.say("HEADER ");
                self.astring();
                self.say(" ");
                self.astring();
            }
            3 => {
                self.one_of(&[
                    "BEFORE ",
                    "ON ",
                    "SINCE ",
                    "SENTBEFORE ",
                    "SENTON ",
                    "SENTSINCE ",
                    "SAVEDSINCE ",
                ]);
                self.one_of(&["1-Feb-2020", "29-Feb-1900", "31-Dec-9999", "\"01-Jan-1970\"", "32-Jan-2020"]);
            }
            4 => {
                self.one_of(&["LARGER ", "SMALLER ", "OLDER ", "YOUNGER ", "MODSEQ "]);
                self.number();
            }
            5 => {
                self.say("UID ");
                self.set();
            }
            6 => self.set(),
            _ => {
                self.one_of(&["EMAILID M1", "THREADID T1", "MODSEQ \"/flags/\\\\Seen\" all 1", "KEYWORD k1"])
            }
        }
    }

    fn store(&mut self) {
        self.uid();
        self.say("STORE ");
        self.set();
        if self.random.one_in(4) {
            self.say(" (UNCHANGEDSINCE ");
            self.number();
            self.say(")");
        }
        self.one_of(&[" FLAGS", " +FLAGS", " -FLAGS", " +FLAGS.SILENT", " FLAGS.SILENT"]);
        self.say(" ");
        match self.random.below(4) {
            0 => self.flag(),
            1 => self.listed(80, Self::flag),
            2 => self.say("()"),
            _ => self.listed(3, Self::flag),
        }
    }
}

/// What STATUS returns.
pub(super) const STATUS: [&str; 9] = [
    "MESSAGES",
    "UIDNEXT",
    "UIDVALIDITY",
    "UNSEEN",
    "DELETED",
    "SIZE",
    "HIGHESTMODSEQ",
    "MAILBOXID",
    "OBJECTID",
];
