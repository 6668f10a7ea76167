//! Commands of IMAP's extensions, for the grammar: sorting and threads, pages, NOTIFY, annotations
//! of mailboxes and messages, rights, quotas, and messages that are put together.

use super::grammar::{Grammar, STATUS};
use super::message::message;

/// Each as often as the others.
const KINDS: usize = 11;

impl Grammar<'_> {
    /// One of them.
    pub(super) fn extension(&mut self) {
        match self.random.below(KINDS) {
            0 => self.sort(),
            1 => self.thread(),
            2 => self.paged(),
            3 => self.notify(),
            4 => self.metadata(),
            5 => self.rights(),
            6 => self.quota(),
            7 => self.catenate(),
            8 => self.replace(),
            9 => self.url(),
            _ => self.annotation(),
        }
    }

    /// RFC 5256, RFC 5267, RFC 5957.
    fn sort(&mut self) {
        self.uid();
        self.say("SORT ");
        if self.random.one_in(3) {
            self.one_of(&[
                "RETURN () ",
                "RETURN (ALL UPDATE) ",
                "RETURN (PARTIAL -1:-5) ",
                "RETURN (MIN COUNT) ",
            ]);
        }
        self.listed(4, |g| {
            g.one_of(&["REVERSE ", "", ""]);
            g.one_of(&[
                "ARRIVAL",
                "DATE",
                "SUBJECT",
                "FROM",
                "SIZE",
                "DISPLAYFROM",
                "DISPLAYTO",
                "TO",
                "CC",
                "RELEVANCY",
                "X",
            ]);
        });
        self.one_of(&[" UTF-8 ", " US-ASCII ", " X "]);
        self.search_key(20);
    }

    /// RFC 5256.
    fn thread(&mut self) {
        self.uid();
        self.one_of(&["THREAD REFERENCES ", "THREAD ORDEREDSUBJECT ", "THREAD REFS ", "THREAD X "]);
        self.one_of(&["UTF-8 ", "US-ASCII "]);
        self.search_key(20);
    }

    /// RFC 9394, RFC 5267, RFC 10022, RFC 7377.
    fn paged(&mut self) {
        match self.random.below(5) {
            0 => {
                self.say("UID FETCH ");
                self.set();
                self.say(" (FLAGS) (PARTIAL ");
                self.page();
                self.say(")");
            }
            1 => self.one_of(&[
                "UIDBATCHES 500",
                "UIDBATCHES 501 1:2",
                "UIDBATCHES 4294967295 0:1",
                "UIDBATCHES",
            ]),
            2 => self.one_of(&["CANCELUPDATE \"f1\"", "CANCELUPDATE \"x\" \"y\"", "CANCELUPDATE"]),
            3 => {
                self.one_of(&["ESEARCH IN (personal) ", "ESEARCH IN (subtree-one a mailboxes (INBOX b)) "]);
                self.search_key(20);
            }
            _ => {
                self.uid();
                self.say("SEARCH RETURN (PARTIAL ");
                self.page();
                self.say(") ");
                self.search_key(20);
            }
        }
    }

    fn page(&mut self) {
        self.one_of(&["", "-"]);
        self.number();
        self.one_of(&[":", ":-"]);
        self.number();
    }

    /// RFC 5465.
    fn notify(&mut self) {
        self.one_of(&["NOTIFY NONE", "NOTIFY SET ", "NOTIFY SET STATUS "]);
        self.some(3, " ", |g| {
            g.say("(");
            g.one_of(&[
                "selected ",
                "selected-delayed ",
                "inboxes ",
                "personal ",
                "subscribed ",
                "subtree a ",
                "mailboxes (INBOX b) ",
            ]);
            g.one_of(&[
                "NONE",
                "(MessageNew (FLAGS ENVELOPE) MessageExpunge FlagChange)",
                "(MessageNew MessageExpunge)",
                "(MailboxName SubscriptionChange)",
                "(MailboxMetadataChange ServerMetadataChange AnnotationChange)",
                "()",
            ]);
            g.say(")");
        });
    }

    /// RFC 5464, RFC 9590.
    fn metadata(&mut self) {
        if self.random.one_in(2) {
            self.with_mailbox(&[
                "GETMETADATA ",
                "GETMETADATA (DEPTH infinity) ",
                "GETMETADATA (MAXSIZE 10) ",
            ]);
            self.say(" ");
            return self.listed(3, Self::entry);
        }
        self.with_mailbox(&["SETMETADATA "]);
        self.say(" ");
        self.listed(3, |g| {
            g.entry();
            g.say(" ");
            g.one_of(&["NIL ", ""]);
            g.astring();
        });
    }

    fn entry(&mut self) {
        self.one_of(&[
            "/private/comment",
            "/shared/comment",
            "/private/specialuse",
            "/shared/vendor/x/y",
            "/private/filters/values/f",
            "/shared/imapsieve/script",
            "/",
            "/private/*",
        ]);
    }

    /// RFC 4314, RFC 8440.
    fn rights(&mut self) {
        self.with_mailbox(&["GETACL ", "MYRIGHTS ", "SETACL ", "DELETEACL ", "LISTRIGHTS "]);
        if self.random.one_in(2) {
            self.one_of(&[" model@example.org", " anyone", " -anyone", " fuzz@example.org", " \"\""]);
        }
        if self.random.one_in(2) {
            self.one_of(&[" lrswipkxtean", " +r", " -lr", " 0123", " \"\""]);
        }
    }

    /// RFC 9208.
    fn quota(&mut self) {
        self.one_of(&["GETQUOTA ", "GETQUOTAROOT ", "SETQUOTA "]);
        self.one_of(&["\"\"", "INBOX", "b", "fuzz@example.org", "model@example.org"]);
        if self.random.one_in(2) {
            self.one_of(&[" (STORAGE 1000000)", " (MESSAGE 0 STORAGE 18446744073709551616)", " ()"]);
        }
    }

    /// RFC 4469.
    fn catenate(&mut self) {
        self.with_mailbox(&["APPEND "]);
        self.parts();
    }

    fn parts(&mut self) {
        self.say(" CATENATE ");
        self.listed(4, |g| {
            if g.random.one_in(2) {
                g.say("TEXT ");
                let text = message(g.random);
                return g.literal(&text);
            }
            g.say("URL \"");
            g.place();
            g.say("\"");
        });
    }

    /// RFC 5092.
    fn place(&mut self) {
        self.one_of(&[
            "/INBOX/;UID=",
            "/b;UIDVALIDITY=1/;UID=",
            "imap://fuzz@localhost/INBOX/;UID=",
            ";UID=",
            "/x",
        ]);
        self.number();
        self.one_of(&[
            "",
            "/;SECTION=1",
            "/;SECTION=HEADER",
            "/;SECTION=1.MIME/;PARTIAL=0.10",
            "/;PARTIAL=9.4294967295",
        ]);
    }

    /// RFC 8508.
    fn replace(&mut self) {
        self.uid();
        self.say("REPLACE ");
        self.number();
        self.say(" ");
        self.mailbox();
        if self.random.one_in(4) {
            return self.parts();
        }
        self.say(" ");
        let text = message(self.random);
        self.literal(&text);
    }

    /// RFC 4467, RFC 5524.
    fn url(&mut self) {
        match self.random.below(3) {
            0 => {
                self.say("GENURLAUTH \"imap://fuzz%40example.org@localhost");
                self.place();
                self.one_of(&[
                    ";URLAUTH=anonymous",
                    ";EXPIRE=2030-01-01T00:00:00Z;URLAUTH=submit+fuzz",
                    ";URLAUTH=x",
                ]);
                self.one_of(&["\" INTERNAL", "\" X"]);
            }
            1 => {
                self.one_of(&["URLFETCH \"imap://fuzz%40example.org@localhost", "URLFETCH (\"imap://a@b"]);
                self.place();
                self.one_of(&["\"", ";URLAUTH=anonymous:INTERNAL:00\"", "\" BODY BINARY)"]);
            }
            _ => self.one_of(&["RESETKEY", "RESETKEY INBOX", "RESETKEY b INTERNAL", "RESETKEY INBOX X"]),
        }
    }

    /// RFC 5257 and, beside it, lists that return more (RFC 5819, RFC 8440, RFC 9590).
    fn annotation(&mut self) {
        match self.random.below(4) {
            0 => {
                self.say("FETCH ");
                self.set();
                self.one_of(&[
                    " (ANNOTATION (/comment value.priv))",
                    " (ANNOTATION (/* (value size)))",
                    " (ANNOTATION (() X))",
                ]);
            }
            1 => {
                self.say("STORE ");
                self.set();
                self.say(" ANNOTATION (/comment (value.priv ");
                self.astring();
                self.one_of(&["))", " value.shared NIL))", ")"]);
            }
            2 => {
                self.say("SEARCH ANNOTATION /comment value ");
                self.astring();
            }
            _ => {
                self.one_of(&[
                    "LIST \"\" * RETURN (MYRIGHTS METADATA (/shared/comment) STATUS ",
                    "XLIST \"\" \"*\" (",
                ]);
                self.listed(3, |g| g.one_of(&STATUS));
                self.say(")");
            }
        }
    }
}
