//! APPEND in bulk: by MULTIAPPEND (RFC 3502), or by LITERAL+ and pipelining (RFC 7888). If the
//! server supports neither, one message at a time.

use std::ops::Range;
use std::sync::atomic::Ordering;

use posthaste_imap_client::command::quoted;
use posthaste_imap_client::{Client, Handler, Response, listing};

use super::work::{UNSEEN_ONE_IN, Work};
use crate::mailbox_list::MailboxList;
use crate::run::Failure;

/// Messages and bytes put into one command.
const BATCH_MESSAGES: u32 = 200;
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// Commands sent and not yet answered.
const UNANSWERED_MAX: u32 = 4;

/// A session that fills one account.
pub struct Filler<'a> {
    work: &'a Work,
    account: u32,
    client: Client,
    /// Names that exist.
    names: Vec<String>,
    /// The beginning of folder names here.
    prefix: String,
    batch: Vec<u8>,
}

#[derive(Default)]
struct Collect {
    listed: MailboxList,
    messages: Option<u64>,
    prefix: Option<String>,
}

impl Handler for Collect {
    fn response(&mut self, response: Response<'_>) {
        match response {
            Response::List(text) => self.listed.add(text),
            Response::Status(text) => {
                let items = listing::status(text).map(|s| s.1).unwrap_or_default();
                self.messages = items.iter().find(|i| i.0 == "MESSAGES").map(|i| i.1);
            }
            Response::Other(text) => {
                let prefix = text.strip_prefix(b"NAMESPACE ").and_then(listing::personal_prefix);
                self.prefix = prefix.or(self.prefix.take());
            }
            _ => {}
        }
    }
}

fn refused(command: &str, text: String) -> Failure {
    Failure::Refused { command: command.to_owned(), text }
}

impl<'a> Filler<'a> {
    /// Logs in and lists the mailboxes.
    pub async fn open(work: &'a Work, account: u32) -> Result<Self, Failure> {
        let options = &work.options;
        let mut client = Client::connect(&options.dialer, &options.server.endpoint, account).await?;
        client.login(&options.accounts.name(account), &options.accounts.password(account)).await?;
        client.learn_capabilities().await?;
        let mut collect = Collect::default();
        client.command("LIST \"\" \"*\"", &mut collect).await?;
        if client.capabilities().has("NAMESPACE") {
            client.command("NAMESPACE", &mut collect).await?;
        }
        let prefix = collect.prefix.unwrap_or_default();
        let listed = collect.listed.all().map_err(Failure::Wrong)?;
        let names = listed.into_iter().map(|mailbox| mailbox.name).collect();
        Ok(Self { work, account, client, names, prefix, batch: Vec::new() })
    }

    /// The name of a mailbox on this server.
    fn named(&self, name: &str) -> String {
        if name == "INBOX" { name.to_owned() } else { format!("{}{name}", self.prefix) }
    }

    /// Makes a mailbox if it is not there; how many messages it has.
    pub async fn prepare(&mut self, name: &str) -> Result<u32, Failure> {
        let name = self.named(name);
        let exists = name == "INBOX" || self.names.contains(&name);
        if !exists {
            let line = format!("CREATE {}", quoted(&name));
            let done = self.client.command(&line, &mut ()).await?;
            if !done.is_ok() {
                return Err(refused(&line, done.text));
            }
            return Ok(0);
        }
        let mut collect = Collect::default();
        let line = format!("STATUS {} (MESSAGES)", quoted(&name));
        let done = self.client.command(&line, &mut collect).await?;
        match collect.messages.filter(|_| done.is_ok()) {
            Some(messages) => Ok(u32::try_from(messages).unwrap_or(u32::MAX)),
            None => Err(refused(&line, done.text)),
        }
    }

    /// Puts in messages of these numbers.
    pub async fn append(&mut self, name: &str, folder: u32, numbers: Range<u32>) -> Result<(), Failure> {
        let name = self.named(name);
        let has = |word| self.client.capabilities().has(word);
        let (many, at_once) = (has("MULTIAPPEND"), has("LITERAL+"));
        let mut next = numbers.start;
        let mut sizes = std::collections::VecDeque::new();
        while next < numbers.end && !self.work.stop.load(Ordering::Relaxed) {
            let line = format!("APPEND {}", quoted(&name));
            self.client.begin();
            self.client.piece(line.as_bytes());
            self.client.note(&line);
            let (mut count, mut bytes) = (0, 0);
            while next < numbers.end && count < BATCH_MESSAGES && bytes < BATCH_BYTES && (many || count == 0)
            {
                self.batch.clear();
                self.work
                    .message(self.account, folder, next, &mut self.batch)
                    .map_err(posthaste_imap_client::Error::from)?;
                let flags = if next.is_multiple_of(UNSEEN_ONE_IN) { "" } else { " (\\Seen)" };
                let plus = if at_once { "+" } else { "" };
                self.client.piece(format!("{flags} {{{}{plus}}}\r\n", self.batch.len()).as_bytes());
                if !at_once {
                    self.client.flush().await?;
                    if let Err(done) = self.client.continuation(&mut ()).await? {
                        return Err(refused(&line, done.text));
                    }
                }
                self.client.piece(&self.batch);
                bytes += self.batch.len();
                count += 1;
                next += 1;
            }
            self.client.end();
            sizes.push_back((u64::from(count), bytes as u64));
            self.client.flush().await?;
            let may_wait = if at_once { UNANSWERED_MAX } else { 0 };
            while self.client.unanswered() > may_wait {
                self.answered(&mut sizes).await?;
            }
        }
        while self.client.unanswered() > 0 {
            self.answered(&mut sizes).await?;
        }
        Ok(())
    }

    async fn answered(&mut self, sizes: &mut std::collections::VecDeque<(u64, u64)>) -> Result<(), Failure> {
        let done = self.client.answer(&mut ()).await?;
        if !done.is_ok() {
            return Err(refused("APPEND", done.text));
        }
        let sent = sizes.pop_front();
        debug_assert!(sent.is_some(), "an answer came for no APPEND");
        if let Some((messages, bytes)) = sent {
            self.work.note(messages, bytes);
        }
        Ok(())
    }

    /// Logs out.
    pub async fn close(self) -> Result<(), Failure> {
        Ok(self.client.logout().await?)
    }
}
