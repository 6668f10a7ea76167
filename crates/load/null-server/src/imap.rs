//! The null server's IMAP: only the commands that the instrument sends.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Fault, Server};
use crate::store::{Mailbox, Numbers, flag_bits, flag_names};

const CAPABILITIES: &str = "IMAP4rev1 LITERAL+ MULTIAPPEND UIDPLUS MOVE IDLE UNSELECT NAMESPACE";

struct Session {
    stream: TcpStream,
    input: Vec<u8>,
    server: Arc<Server>,
    user: String,
    selected: Option<String>,
    /// Messages of the selected mailbox that the client knows of.
    reported: usize,
    out: Vec<u8>,
}

/// The fate of the messages that were copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Originals {
    /// COPY.
    Stay,
    /// MOVE.
    Go,
}

/// Serves one connection to its end.
pub async fn serve(stream: TcpStream, server: Arc<Server>) {
    let _ = stream.set_nodelay(true);
    let (input, out) = (Vec::new(), Vec::new());
    let mut session =
        Session { stream, input, server, user: String::new(), selected: None, reported: 0, out };
    let _ = session.run().await;
}

impl Session {
    async fn run(&mut self) -> io::Result<()> {
        let greeting = format!("* OK [CAPABILITY {CAPABILITIES}] null server\r\n");
        self.stream.write_all(greeting.as_bytes()).await?;
        while let Some(line) = self.line().await? {
            let text = String::from_utf8_lossy(&line).into_owned();
            let (tag, command) = text.split_once(' ').unwrap_or((text.as_str(), ""));
            let (verb, args) = command.split_once(' ').unwrap_or((command, ""));
            let faults = self.server.faults.clone();
            if let Some((name, time, one_in)) = faults.delay
                && command.contains(name)
                && self.server.strikes(Fault::Delay, one_in)
            {
                tokio::time::sleep(time).await;
            }
            if verb != "LOGIN" && self.server.strikes(Fault::HangUp, faults.hang_up_one_in) {
                self.stream.write_all(b"* 1 FETCH (UID").await?;
                return Ok(());
            }
            if verb != "LOGIN" && self.server.strikes(Fault::Garbage, faults.garbage_one_in) {
                self.stream.write_all(b"\x00\xffHTTP/1.1 500\r\n").await?;
            }
            match self.answer(tag, verb, args).await? {
                Some(status) => {
                    self.out.extend_from_slice(format!("{tag} {status}\r\n").as_bytes());
                    self.stream.write_all(&self.out).await?;
                    self.out.clear();
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Fills `out`; the status line's text, or `None` to close.
    async fn answer(&mut self, tag: &str, verb: &str, args: &str) -> io::Result<Option<String>> {
        let ok = Some("OK done".to_owned());
        Ok(match verb {
            "LOGIN" => {
                if self.server.faults.refuse_logins {
                    return Ok(Some("NO [AUTHENTICATIONFAILED] no".into()));
                }
                self.user = args.split('"').nth(1).unwrap_or_default().to_owned();
                Some(format!("OK [CAPABILITY {CAPABILITIES}] in"))
            }
            "LOGOUT" => {
                self.out.extend_from_slice(format!("* BYE out\r\n{tag} OK out\r\n").as_bytes());
                self.stream.write_all(&self.out).await?;
                None
            }
            "CAPABILITY" => {
                self.out.extend_from_slice(format!("* CAPABILITY {CAPABILITIES}\r\n").as_bytes());
                ok
            }
            "LIST" => {
                let names = self.server.store.with(&self.user, |a| a.keys().cloned().collect::<Vec<_>>());
                for name in names {
                    self.out.extend_from_slice(format!("* LIST () \"/\" \"{name}\"\r\n").as_bytes());
                }
                ok
            }
            "STATUS" => self.status(&quoted_name(args)),
            "SELECT" | "EXAMINE" => self.select(&quoted_name(args)),
            "UNSELECT" | "CLOSE" => {
                self.selected = None;
                ok
            }
            "NOOP" | "CHECK" | "NAMESPACE" => {
                self.announce();
                ok
            }
            "FETCH" => self.fetch(args, Numbers::Sequence),
            "UID" => {
                let (verb, args) = args.split_once(' ').unwrap_or((args, ""));
                self.uid(verb, args)
            }
            "EXPUNGE" => {
                let expunged = self.here(|m| m.remove(|mail| mail.flags & 2 != 0)).unwrap_or_default();
                self.report_expunged(&expunged);
                ok
            }
            "APPEND" => self.append(args).await?,
            "CREATE" => {
                self.server
                    .store
                    .with(&self.user, |a| a.entry(quoted_name(args)).or_insert_with(Mailbox::new).next_uid);
                ok
            }
            "DELETE" => match self.server.store.with(&self.user, |a| a.remove(&quoted_name(args))) {
                Some(_) => ok,
                None => Some("NO no such mailbox".into()),
            },
            "RENAME" => {
                let mut names = args.split('"').skip(1).step_by(2);
                let (from, to) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
                self.server.store.with(&self.user, |a| a.remove(from).map(|m| a.insert(to.to_owned(), m)));
                ok
            }
            "IDLE" => {
                self.stream.write_all(b"+ idling\r\n").await?;
                self.line().await?;
                self.announce();
                ok
            }
            _ => Some("BAD unknown".into()),
        })
    }

    /// A command after UID.
    fn uid(&mut self, verb: &str, args: &str) -> Option<String> {
        match verb {
            "FETCH" => self.fetch(args, Numbers::Uids),
            "STORE" => self.store(args),
            "SEARCH" => {
                let found = self.here(|m| m.search(args)).unwrap_or_default();
                let numbers: Vec<String> = found.iter().map(u32::to_string).collect();
                self.out.extend_from_slice(format!("* SEARCH {}\r\n", numbers.join(" ")).as_bytes());
                Some("OK done".into())
            }
            "COPY" => self.copy(args, Originals::Stay),
            "MOVE" => self.copy(args, Originals::Go),
            _ => Some("BAD unknown".into()),
        }
    }

    fn status(&mut self, name: &str) -> Option<String> {
        let status = self
            .server
            .store
            .with(&self.user, |a| a.get(name).map(|m| (m.mails.len(), m.next_uid, m.search("UNSEEN").len())));
        let Some((messages, next, unseen)) = status else { return Some("NO no such mailbox".into()) };
        let items = format!("MESSAGES {messages} UIDNEXT {next} UNSEEN {unseen}");
        self.out.extend_from_slice(format!("* STATUS \"{name}\" ({items})\r\n").as_bytes());
        Some("OK done".into())
    }

    fn here<T>(&self, f: impl FnOnce(&mut Mailbox) -> T) -> Option<T> {
        let name = self.selected.clone()?;
        self.server.store.with(&self.user, |a| a.get_mut(&name).map(f))
    }

    fn announce(&mut self) {
        let now = self.here(|m| m.mails.len()).unwrap_or(0);
        if self.selected.is_some() && now > self.reported {
            self.out.extend_from_slice(format!("* {now} EXISTS\r\n").as_bytes());
            self.reported = now;
        }
    }

    fn select(&mut self, name: &str) -> Option<String> {
        let known = self.server.store.with(&self.user, |a| a.contains_key(name));
        if !known {
            return Some("NO no such mailbox".into());
        }
        self.selected = Some(name.to_owned());
        self.reported = self.here(|m| m.mails.len()).unwrap_or(0);
        let lines = format!("* {} EXISTS\r\n* FLAGS (\\Seen)\r\n* OK [UIDVALIDITY 1] ok\r\n", self.reported);
        self.out.extend_from_slice(lines.as_bytes());
        Some("OK [READ-WRITE] done".into())
    }

    fn fetch(&mut self, args: &str, numbers: Numbers) -> Option<String> {
        let (set, items) = args.split_once(' ').unwrap_or((args, ""));
        let server = self.server.clone();
        if set == "1:*" && items == "(UID FLAGS)" && !server.faults.short_listings {
            let listing = self.here(Mailbox::listing)?;
            self.out.extend_from_slice(&listing);
            return Some("OK done".into());
        }
        let mut out = std::mem::take(&mut self.out);
        self.here(|mailbox| {
            let mut numbers = mailbox.resolve(set, numbers);
            if server.faults.short_listings && numbers.len() > 1 {
                numbers.pop();
            }
            for n in numbers {
                let Some(mail) = mailbox.mails.get_mut(n - 1) else { continue };
                if items.contains("BODY[]") {
                    mail.flags |= 1;
                }
                let head = format!("* {n} FETCH (UID {} FLAGS ({})", mail.uid, flag_names(mail.flags));
                out.extend_from_slice(head.as_bytes());
                if items.contains("RFC822.SIZE") {
                    out.extend_from_slice(format!(" RFC822.SIZE {}", mail.body.len()).as_bytes());
                }
                if items.contains("HEADER.FIELDS") {
                    let end = memchr::memmem::find(&mail.body, b"\r\n\r\n").map_or(0, |at| at + 4);
                    section(&mut out, "HEADER.FIELDS (X)", &mail.body[..end]);
                } else if items.contains("BODY[]") || items.contains("BODY.PEEK[]") {
                    let at = section(&mut out, "", &mail.body);
                    if server.strikes(Fault::Alter, server.faults.alter_one_in) {
                        out[at + mail.body.len() / 2] ^= 1;
                    }
                }
                out.extend_from_slice(b")\r\n");
            }
            mailbox.listing = None;
        });
        self.out = out;
        Some("OK done".into())
    }

    fn store(&mut self, args: &str) -> Option<String> {
        let mut words = args.splitn(3, ' ');
        let (set, how, flags) = (words.next()?, words.next()?, words.next()?);
        let mut lines = String::new();
        self.here(|mailbox| {
            let numbers = mailbox.resolve(set, Numbers::Uids);
            mailbox.store(&numbers, how, flags.trim_matches(['(', ')']));
            for n in numbers.iter().filter(|_| !how.ends_with(".SILENT")) {
                if let Some(mail) = mailbox.mails.get(n - 1) {
                    lines.push_str(&format!(
                        "* {n} FETCH (UID {} FLAGS ({}))\r\n",
                        mail.uid,
                        flag_names(mail.flags)
                    ));
                }
            }
        });
        self.out.extend_from_slice(lines.as_bytes());
        Some("OK done".into())
    }

    fn copy(&mut self, args: &str, originals: Originals) -> Option<String> {
        let (set, name) = args.split_once(' ')?;
        let name = quoted_name(name);
        let copied = self.here(|m| {
            m.resolve(set, Numbers::Uids)
                .into_iter()
                .filter_map(|n| m.mails.get(n - 1).cloned())
                .collect::<Vec<_>>()
        })?;
        let uids = self.server.store.with(&self.user, |a| {
            let target = a.get_mut(&name)?;
            Some(copied.iter().map(|m| target.add(m.body.clone(), m.flags)).collect::<Vec<_>>())
        });
        let Some(uids) = uids else { return Some("NO [TRYCREATE] no such mailbox".into()) };
        let list = |numbers: Vec<u32>| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let from = copied.iter().map(|m| m.uid).collect::<Vec<_>>();
        let code = format!("[COPYUID 1 {} {}]", list(from.clone()), list(uids));
        if originals == Originals::Stay {
            return Some(format!("OK {code} done"));
        }
        self.out.extend_from_slice(format!("* OK {code} moved\r\n").as_bytes());
        let expunged = self.here(|m| m.remove(|mail| from.contains(&mail.uid))).unwrap_or_default();
        self.report_expunged(&expunged);
        Some("OK done".into())
    }

    fn report_expunged(&mut self, expunged: &[usize]) {
        for n in expunged {
            self.out.extend_from_slice(format!("* {n} EXPUNGE\r\n").as_bytes());
        }
        self.reported = self.reported.saturating_sub(expunged.len());
    }

    /// APPEND of one message or many: the line so far ends in a literal.
    async fn append(&mut self, args: &str) -> io::Result<Option<String>> {
        let (name, mut rest) = (quoted_name(args), args.to_owned());
        let mut uids = Vec::new();
        while let Some((flags, bytes)) = announced(&rest) {
            while self.input.len() < bytes {
                if self.stream.read_buf(&mut self.input).await? == 0 {
                    return Ok(None);
                }
            }
            let body: Arc<[u8]> = self.input.drain(..bytes).collect::<Vec<u8>>().into();
            let lost = self.server.strikes(Fault::Lose, self.server.faults.lose_one_in);
            let uid = self.server.store.with(&self.user, |a| {
                let mailbox = a.get_mut(&name)?;
                Some(if lost { mailbox.next_uid } else { mailbox.add(body, flags) })
            });
            let Some(uid) = uid else { return Ok(Some("NO [TRYCREATE] no such mailbox".into())) };
            uids.push(uid.to_string());
            let Some(line) = self.line().await? else { return Ok(None) };
            rest = String::from_utf8_lossy(&line).into_owned();
        }
        self.announce();
        Ok(Some(format!("OK [APPENDUID 1 {}] done", uids.join(","))))
    }

    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.input) {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return Ok(Some(line.trim_ascii_end().to_vec()));
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Appends ` BODY[what] {n}` and the bytes; where they start.
fn section(out: &mut Vec<u8>, what: &str, bytes: &[u8]) -> usize {
    out.extend_from_slice(format!(" BODY[{what}] {{{}}}\r\n", bytes.len()).as_bytes());
    let at = out.len();
    out.extend_from_slice(bytes);
    at
}

fn quoted_name(args: &str) -> String {
    args.split('"').nth(1).unwrap_or_else(|| args.split(' ').next().unwrap_or_default()).to_owned()
}

/// Flags and size of the literal that ends a line of APPEND.
fn announced(line: &str) -> Option<(u8, usize)> {
    let (before, size) = line.strip_suffix("+}").or_else(|| line.strip_suffix('}'))?.rsplit_once('{')?;
    let flags = before.rsplit_once('(').map_or("", |(_, f)| f).trim_end_matches([' ', ')']);
    Some((flag_bits(flags.as_bytes()), size.parse().ok()?))
}
