//! One connection to a host: the greeting, EHLO, STARTTLS, AUTH; then messages.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use posthaste_queue::{Body, Failure, Item, LeaseEnd, Notify, Recipient, Sent, Success, TlsRequirement};
use posthaste_reporting::TlsFault;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;

use crate::dane::Dane;
use crate::dots::{BLOCK, Dotted};
use crate::extensions::Extensions;
use crate::pace::{BLOCK_WITHIN, Pace, REPLY_WITHIN};
use crate::reply::Reply;
use crate::route::{Login, Route, TlsRule};
use crate::stream::Stream;
use crate::tls::Tls;

/// To connect. Not in RFC 5321; a host that is there answers in seconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// For the reply to DATA: RFC 5321 §4.5.3.2.4.
const DATA_WITHIN: Duration = Duration::from_secs(120);
/// For the reply to a message's end: RFC 5321 §4.5.3.2.6.
const END_WITHIN: Duration = Duration::from_secs(600);
/// For the reply to QUIT: nothing depends on it.
const QUIT_WITHIN: Duration = Duration::from_secs(5);
const TLS_WITHIN: Duration = Duration::from_secs(30);
/// Commands that are sent before a reply is read. Their replies fit any host's send buffer, so that
/// neither side waits for the other for ever (RFC 2920 §3.1).
const GROUP: usize = 50;

/// RFC 5321 §6.3, RFC 3463 §3.5: routing loop detected.
pub(crate) const GOES_ROUND: &str = "5.4.6";
/// Recipients of one transaction: every host takes as many (RFC 5321 §4.5.3.1.8). A higher limit
/// of a host (RFC 9422 §4) gains little, and would let it make us keep more outcomes.
const RECIPIENTS_MAX: usize = 100;

/// The TLS that a connection must have.
#[derive(Debug, Clone)]
pub(crate) enum Security {
    /// The rule of a route.
    Rule(TlsRule),
    /// Some, with any certificate: unusable records of DANE (RFC 7672 §2.2).
    Encrypted,
    /// A certificate that fits records of DANE.
    Dane(Arc<Dane>),
}

impl Security {
    /// Whether the host is known to be the right one.
    const fn is_assured(&self) -> bool {
        matches!(self, Self::Dane(_) | Self::Rule(TlsRule::Verified | TlsRule::Implicit))
    }
}

/// A host that has greeted us.
pub(crate) struct Client {
    stream: Stream,
    extensions: Extensions,
    /// The host's name and address, for a person.
    host: String,
    /// Whether it is known to be the right host.
    is_assured: bool,
    /// Transactions that were begun.
    mails: usize,
}

/// The reason why a connection could not be made ready.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// TLS failed, or is not offered: it may be tried with less.
    Tls(Failure, TlsFault),
    /// Anything else.
    Other(Failure),
}

impl From<Failure> for ConnectError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl Client {
    /// Connects to an address of a route and makes the connection ready for mail. `our_name` is
    /// what EHLO says.
    #[boxed]
    pub async fn connect(
        route: &Route,
        security: &Security,
        address: SocketAddr,
        tls: &Tls,
        our_name: &str,
    ) -> Result<Self, ConnectError> {
        let host = format!("{} [{}]", route.host, address.ip());
        let dial = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await;
        let dial = dial.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer")));
        let tcp = dial.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp)).map_err(|e| lost(&host, &e))?;
        let stream = match security {
            Security::Rule(TlsRule::Implicit) => {
                Stream::tls(handshake(tcp, route, security, tls, &host).await?)
            }
            _ => Stream::plain(tcp),
        };
        let extensions = Extensions::default();
        let is_assured = security.is_assured();
        let mut client = Self { stream, extensions, host, is_assured, mails: 0 };
        client.greeting(our_name).await?;
        client.hello(our_name).await?;
        if client.wants_tls(security)? {
            client = client.start_tls(route, security, tls).await?;
            client.hello(our_name).await?;
        }
        if let Some(login) = &route.login {
            client.log_in(login).await?;
        }
        Ok(client)
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// Whether a message that needs TLS at every step may be sent (RFC 8689 §4.2.1).
    pub fn fits_require_tls(&self) -> Result<(), Failure> {
        if !self.is_assured || !self.is_tls() {
            // RFC 8689 §4.2.2.
            let words =
                format!("{} is not verified to be the right host, which REQUIRETLS requires", self.host);
            return Err(Failure::permanent("5.7.10", words));
        }
        match self.extensions.requiretls {
            true => Ok(()),
            false => Err(Failure::permanent("5.7.30", format!("{} does not offer REQUIRETLS", self.host))),
        }
    }

    async fn greeting(&mut self, our_name: &str) -> Result<(), Failure> {
        let greeting = self.reply(REPLY_WITHIN).await?;
        if !greeting.is_positive() {
            // The host as it is now, not the message: another one may take it, or this one later.
            return Err(Failure { permanent: false, ..greeting.failure() });
        }
        let name = greeting.lines.first().and_then(|line| line.split(' ').next()).unwrap_or_default();
        if name.eq_ignore_ascii_case(our_name) {
            let words = format!("{} is this server itself: mail would loop", self.host);
            return Err(Failure::permanent(GOES_ROUND, words));
        }
        Ok(())
    }

    async fn hello(&mut self, our_name: &str) -> Result<(), Failure> {
        let ehlo = self.command(&format!("EHLO {our_name}"), REPLY_WITHIN).await?;
        if ehlo.is_positive() {
            self.extensions = Extensions::of(&ehlo);
            return Ok(());
        }
        // RFC 5321 §3.2: a host that knows no EHLO knows HELO.
        let helo = self.command(&format!("HELO {our_name}"), REPLY_WITHIN).await?;
        self.extensions = Extensions::default();
        if helo.is_positive() { Ok(()) } else { Err(Failure { permanent: false, ..helo.failure() }) }
    }

    fn wants_tls(&self, security: &Security) -> Result<bool, ConnectError> {
        match security {
            Security::Rule(TlsRule::Never | TlsRule::Implicit) => Ok(false),
            Security::Rule(TlsRule::Opportunistic) => Ok(self.extensions.starttls),
            _ if self.extensions.starttls => Ok(true),
            _ => {
                let words = format!("{} offers no TLS, which is required there", self.host);
                Err(ConnectError::Tls(Failure::temporary("4.7.10", words), TlsFault::StarttlsNotSupported))
            }
        }
    }

    /// RFC 3207 §4.
    async fn start_tls(
        mut self,
        route: &Route,
        security: &Security,
        tls: &Tls,
    ) -> Result<Self, ConnectError> {
        let reply = self.command("STARTTLS", REPLY_WITHIN).await?;
        if !reply.is_positive() {
            let failure = Failure { permanent: false, ..reply.failure() };
            return Err(ConnectError::Tls(failure, TlsFault::StarttlsNotSupported));
        }
        let Self { host, is_assured, .. } = self;
        let too_much =
            || Failure::temporary("4.7.0", format!("{host} sent more than the answer to STARTTLS"));
        let tcp = self.stream.into_tcp().ok_or_else(too_much)?;
        let stream = Stream::tls(handshake(tcp, route, security, tls, &host).await?);
        Ok(Self { stream, extensions: Extensions::default(), host, is_assured, mails: 0 })
    }

    /// AUTH PLAIN (RFC 4954 §4, RFC 4616), or LOGIN where a host has nothing else
    /// (draft-murchison-sasl-login), inside verified TLS only.
    async fn log_in(&mut self, login: &Login) -> Result<(), Failure> {
        if !self.is_assured || !self.stream.is_tls() {
            let words = format!(
                "the password for {} is sent inside verified TLS only: set tls = \"verified\"",
                self.host
            );
            return Err(Failure::temporary("4.7.0", words));
        }
        self.authenticate(login).await
    }

    async fn authenticate(&mut self, Login { user, password }: &Login) -> Result<(), Failure> {
        let reply = if self.extensions.auth_plain {
            let secret = BASE64.encode(format!("\0{user}\0{}", password.expose()));
            self.command(&format!("AUTH PLAIN {secret}"), REPLY_WITHIN).await?
        } else if self.extensions.auth_login {
            let mut reply = self.command("AUTH LOGIN", REPLY_WITHIN).await?;
            for answer in [user.as_str(), password.expose().as_str()] {
                if reply.code == 334 {
                    reply = self.command(&BASE64.encode(answer), REPLY_WITHIN).await?;
                }
            }
            reply
        } else {
            let words = format!("{} offers neither AUTH PLAIN nor AUTH LOGIN", self.host);
            return Err(Failure::temporary("4.7.0", words));
        };
        // A password that is wrong is our fault, not that of the mail.
        if reply.code == 235 { Ok(()) } else { Err(Failure { permanent: false, ..reply.failure() }) }
    }

    async fn command(&mut self, line: &str, within: Duration) -> Result<Reply, Failure> {
        self.write(format!("{line}\r\n").as_bytes()).await?;
        self.reply(within).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write(bytes, BLOCK_WITHIN).await.map_err(|e| lost(&self.host, &e))
    }

    async fn reply(&mut self, within: Duration) -> Result<Reply, Failure> {
        let reply = self.stream.reply(within).await.map_err(|e| lost(&self.host, &e))?;
        tracing::trace!(host = self.host, reply = reply.text());
        Ok(reply)
    }

    /// Sends a message to the recipients of an item at some places.
    #[boxed]
    pub async fn send(&mut self, item: &Item, to: &[usize], message: Body) -> Sent {
        let to: Vec<&Recipient> = item.at(to).collect();
        let reports = self.extensions.dsn;
        let (outcomes, usable) = match self.fits(item, message.bytes()) {
            Err(failure) => (vec![Err(failure); to.len()], true),
            Ok(()) => self.transact(item, &to, message).await,
        };
        let success = (!reports).then_some(Success::SentOn);
        Sent { outcomes: outcomes.into_iter().map(|one| one.map(|()| success)).collect(), usable }
    }

    /// The waiting recipients, by place, of each transaction.
    pub fn transactions(&self, item: &Item) -> Vec<Vec<usize>> {
        let max = self.extensions.recipients_max.map_or(RECIPIENTS_MAX, |max| max.min(RECIPIENTS_MAX));
        let is_silent = |at: &usize| item.recipients.get(*at).is_some_and(|to| self.needs_silence(to));
        let (silent, others): (Vec<usize>, Vec<usize>) = item.waiting_places().partition(is_silent);
        [others, silent].iter().flat_map(|group| group.chunks(max)).map(<[usize]>::to_vec).collect()
    }

    /// Whether the host takes no further transaction on this connection (RFC 9422 §4).
    pub fn is_spent(&self) -> bool {
        self.extensions.mails_max.is_some_and(|max| self.mails >= max)
    }

    /// RFC 3461 §5.2.2: a host without DSN would report a failure that the sender does not want.
    /// It gets the message without a sender.
    fn needs_silence(&self, to: &Recipient) -> bool {
        !self.extensions.dsn && to.notify == Some(Notify::NEVER)
    }

    /// The checks that need no command to the host.
    fn fits(&self, item: &Item, message: &Bytes) -> Result<(), Failure> {
        if let Some(limit) = self.extensions.size
            && message.len() as u64 > limit
        {
            let words =
                format!("{} takes at most {limit} octets; the message has {}", self.host, message.len());
            return Err(Failure::permanent("5.3.4", words));
        }
        if item.smtputf8 && !self.extensions.smtputf8 {
            // RFC 6531 §3.5, §8.
            return Err(Failure::permanent("5.6.7", format!("{} does not know SMTPUTF8", self.host)));
        }
        if item.binary && !(self.extensions.binarymime && self.extensions.chunking) {
            // RFC 3030 §3, RFC 3463 §3.7: a conversion is needed that we do not make.
            let words = format!("{} does not take binary mail (BINARYMIME)", self.host);
            return Err(Failure::permanent("5.6.3", words));
        }
        if item.tls() == TlsRequirement::Required { self.fits_require_tls() } else { Ok(()) }
    }

    /// One transaction. Returns the outcome for each recipient, and whether the connection can be
    /// used for another one.
    async fn transact(
        &mut self,
        item: &Item,
        to: &[&Recipient],
        message: Body,
    ) -> (Vec<Result<(), Failure>>, bool) {
        let mail = self.mail(item, to, message.bytes());
        let recipients: Vec<String> = to.iter().map(|to| self.rcpt(to)).collect();
        self.mails += 1;
        let (answers, lost) = self.envelope(&mail, &recipients).await;
        let mut answers = answers.into_iter();
        let Some(sender) = answers.next() else {
            return (vec![Err(lost.unwrap_or_else(|| self.no_answer())); to.len()], false);
        };
        if let Err(failure) = sender {
            return (vec![Err(failure); to.len()], lost.is_none() && self.reset().await);
        }
        let mut outcomes: Vec<Result<(), Failure>> = answers.collect();
        outcomes.resize(to.len(), Err(self.no_answer()));
        if let Some(failure) = lost {
            // Recipients that were refused before are refused: the host would do the same each
            // time.
            for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
                *outcome = Err(failure.clone());
            }
            return (outcomes, false);
        }
        if outcomes.iter().all(Result::is_err) {
            return (outcomes, self.reset().await);
        }
        let Err((failure, usable)) = self.hand_over(item, message).await else { return (outcomes, true) };
        outcomes.iter_mut().filter(|o| o.is_ok()).for_each(|o| *o = Err(failure.clone()));
        (outcomes, usable)
    }

    /// Sends the message itself. An error says also whether the connection can be used for another.
    async fn hand_over(&mut self, item: &Item, message: Body) -> Result<(), (Failure, bool)> {
        let end = if item.binary { self.chunk(message).await } else { self.data(message).await };
        match end {
            // RFC 5321 §4.3.2: only a 2yz reply means that the host has the message.
            Ok(end) if (200..300).contains(&end.code) => Ok(()),
            // RFC 5321 §3.8: the host ends the connection.
            Ok(end) if end.code == 421 => Err((end.failure(), false)),
            // A refusal may leave the transaction open: hosts answer the next MAIL with 503 then.
            // RFC 3030 §2 demands RSET after a refused chunk.
            Ok(end) => Err((end.failure(), self.reset().await)),
            Err(failure) => Err((failure, false)),
        }
    }

    /// The line of MAIL.
    fn mail(&self, item: &Item, to: &[&Recipient], message: &Bytes) -> String {
        let is_silent = to.iter().any(|to| self.needs_silence(to));
        let mut mail = format!("MAIL FROM:<{}>", if is_silent { "" } else { &item.from });
        if self.extensions.size.is_some() {
            mail += &format!(" SIZE={}", message.len());
        }
        if item.binary {
            mail += " BODY=BINARYMIME";
        } else if self.extensions.eight_bit && !message.is_ascii() {
            mail += " BODY=8BITMIME";
        }
        if item.smtputf8 {
            mail += " SMTPUTF8";
        }
        if item.tls() == TlsRequirement::Required {
            mail += " REQUIRETLS";
        }
        if self.extensions.mt_priority && !item.priority.is_normal() {
            // RFC 6710 §4.2.
            mail += &format!(" MT-PRIORITY={}", item.priority);
        }
        if self.extensions.dsn {
            // RFC 3461 §5.2.1: only the parameters that the sender gave.
            mail += &item.ret.map(|ret| format!(" RET={}", ret.name())).unwrap_or_default();
            let envid = item.envid.as_ref().map(|envid| format!(" ENVID={}", envid.as_xtext()));
            mail += &envid.unwrap_or_default();
        }
        mail
    }

    /// The line of RCPT.
    fn rcpt(&self, to: &Recipient) -> String {
        let mut rcpt = format!("RCPT TO:<{}>", to.address);
        if self.extensions.dsn {
            rcpt += &to.notify.map(|notify| format!(" NOTIFY={notify}")).unwrap_or_default();
            let orcpt = to.orcpt.as_ref().map(|orcpt| format!(" ORCPT={}", orcpt.as_str()));
            rcpt += &orcpt.unwrap_or_default();
        }
        rcpt
    }

    /// MAIL and RCPT, together where the host knows PIPELINING (RFC 2920), and their outcomes.
    /// After a refused MAIL the others may be missing; after a lost connection, too. The second
    /// answer is why it was lost.
    async fn envelope(&mut self, mail: &str, to: &[String]) -> (Vec<Result<(), Failure>>, Option<Failure>) {
        let mut lines = std::iter::once(mail).chain(to.iter().map(String::as_str));
        let group = if self.extensions.pipelining { GROUP } else { 1 };
        let pace = Pace::of_envelope(to.len(), Instant::now());
        let mut outcomes: Vec<Result<(), Failure>> = Vec::with_capacity(to.len() + 1);
        loop {
            let together: Vec<&str> = lines.by_ref().take(group).collect();
            if together.is_empty() || outcomes.first().is_some_and(Result::is_err) {
                return (outcomes, None);
            }
            if let Err(failure) = self.write((together.join("\r\n") + "\r\n").as_bytes()).await {
                return (outcomes, Some(failure));
            }
            for _ in &together {
                match self.reply(pace.left(Instant::now()).min(REPLY_WITHIN)).await {
                    Ok(reply) => outcomes.push(reply.outcome()),
                    Err(failure) => return (outcomes, Some(failure)),
                }
            }
        }
    }

    fn no_answer(&self) -> Failure {
        Failure::temporary("4.4.2", format!("{}: no answer", self.host))
    }

    /// DATA, the message, and the reply to its end.
    async fn data(&mut self, message: Body) -> Result<Reply, Failure> {
        let reply = self.command("DATA", DATA_WITHIN).await?;
        if reply.code != 354 {
            // RFC 5321 §4.3.2: DATA succeeds with 354 alone. This reply is to another command.
            // The message was not sent, and the connection cannot be used any more.
            if reply.is_positive() {
                let answer = format!("{} answers DATA with {}", self.host, reply.text());
                return Err(Failure::temporary("4.5.0", answer));
            }
            return Ok(reply);
        }
        let pace = Pace::of(message.bytes().len(), Instant::now());
        let (mut dotted, mut block) = (Dotted::new(message.bytes()), Vec::with_capacity(BLOCK));
        while dotted.next(&mut block) {
            match dotted.is_ended() {
                true => self.write_end(&block, &pace, message.lease_end()).await?,
                false => self.write_block(&block, &pace).await?,
            }
        }
        // However long the host takes to answer, the memory is for others.
        drop((block, message));
        self.reply(END_WITHIN).await
    }

    /// The message as one chunk of octets (RFC 3030 §2), and the reply to it.
    async fn chunk(&mut self, message: Body) -> Result<Reply, Failure> {
        let bytes = message.bytes();
        let pace = Pace::of(bytes.len(), Instant::now());
        let (command, end) = (format!("BDAT {} LAST\r\n", bytes.len()), bytes.len().saturating_sub(1));
        self.write(command.as_bytes()).await?;
        let (before, end) = bytes.split_at(end / BLOCK * BLOCK);
        for block in before.chunks(BLOCK) {
            self.write_block(block, &pace).await?;
        }
        self.write_end(end, &pace, message.lease_end()).await?;
        drop(message);
        self.reply(END_WITHIN).await
    }

    /// Writes the last octets of a message, unless another server sends it now: a host has a
    /// message only with its end.
    async fn write_end(&mut self, block: &[u8], pace: &Pace, lease_end: &LeaseEnd) -> Result<(), Failure> {
        if lease_end.is_over() {
            return Err(Failure::temporary("4.3.2", "another server sends the queue's mail"));
        }
        let within = pace.left(Instant::now()).min(BLOCK_WITHIN);
        let within = lease_end.left().map_or(within, |left| left.min(within));
        self.stream.write(block, within).await.map_err(|e| lost(&self.host, &e))
    }

    async fn write_block(&mut self, block: &[u8], pace: &Pace) -> Result<(), Failure> {
        let within = pace.left(Instant::now()).min(BLOCK_WITHIN);
        self.stream.write(block, within).await.map_err(|e| lost(&self.host, &e))
    }

    /// Ends a transaction that failed. Returns whether the connection can be used for another.
    async fn reset(&mut self) -> bool {
        self.command("RSET", REPLY_WITHIN).await.is_ok_and(|reply| reply.is_positive())
    }

    /// Says goodbye (RFC 5321 §4.1.1.10).
    #[boxed]
    pub async fn quit(mut self) {
        let _ = self.command("QUIT", QUIT_WITHIN).await;
    }
}

async fn handshake(
    tcp: TcpStream,
    route: &Route,
    security: &Security,
    tls: &Tls,
    host: &str,
) -> Result<TlsStream<TcpStream>, ConnectError> {
    let failed = |why: String, fault| {
        ConnectError::Tls(Failure::temporary("4.7.5", format!("{host}: TLS failed: {why}")), fault)
    };
    let other = |why: String| failed(why, TlsFault::ValidationFailure);
    let of_dane;
    let connector = match security {
        Security::Rule(TlsRule::Verified | TlsRule::Implicit) => tls
            .verified
            .as_ref()
            .ok_or_else(|| other("no authorities are configured: set relay.ca".into()))?,
        Security::Dane(dane) => {
            of_dane = tls.dane(dane).map_err(|e| other(e.to_string()))?;
            &of_dane
        }
        _ => &tls.opportunistic,
    };
    let name = ServerName::try_from(route.host.clone()).map_err(|e| other(e.to_string()))?;
    let done = timeout(TLS_WITHIN, connector.connect(name, tcp)).await;
    done.map_err(|_| other("no answer".into()))?.map_err(|e| failed(e.to_string(), fault(&e)))
}

/// The result type of a failed handshake (RFC 8460 §4.3).
fn fault(error: &io::Error) -> TlsFault {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(certificate)) => match certificate {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFault::CertificateHostMismatch
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsFault::CertificateExpired
            }
            CertificateError::ApplicationVerificationFailure => TlsFault::TlsaInvalid,
            CertificateError::UnknownIssuer | CertificateError::Revoked => TlsFault::CertificateNotTrusted,
            _ => TlsFault::ValidationFailure,
        },
        _ => TlsFault::ValidationFailure,
    }
}

/// RFC 3463 §3.5: no answer from the host, or a connection that broke.
fn lost(host: &str, error: &io::Error) -> Failure {
    Failure::temporary("4.4.2", format!("{host}: {error}"))
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Secret;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A host's answers to what a client says to it, one after the other.
    async fn logged_in(extensions: Extensions, talk: &'static [(&str, &str)]) -> Result<(), Failure> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let host = tokio::spawn(async move {
            let mut lines = tokio::io::BufReader::new(listener.accept().await.unwrap().0);
            for (said, answer) in talk {
                let mut line = String::new();
                lines.read_line(&mut line).await.unwrap();
                assert_eq!(line.trim_end(), *said);
                lines.get_mut().write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
            }
        });
        let stream = Stream::plain(TcpStream::connect(address).await.unwrap());
        let mut client = Client { stream, extensions, host: "mx".into(), is_assured: true, mails: 0 };
        let login = Login { user: "ana".into(), password: Secret::new("pencil".into()) };
        let done = client.authenticate(&login).await;
        host.await.unwrap();
        done
    }

    #[tokio::test]
    async fn a_host_without_auth_plain_gets_the_login_line_by_line() {
        let login = Extensions { auth_login: true, ..Extensions::default() };
        let lines =
            &[("AUTH LOGIN", "334 VXNlcm5hbWU6"), ("YW5h", "334 UGFzc3dvcmQ6"), ("cGVuY2ls", "235 ok")];
        logged_in(login.clone(), lines).await.unwrap();
        let refused = &[("AUTH LOGIN", "334 "), ("YW5h", "535 5.7.8 no such user")];
        let failure = logged_in(login.clone(), refused).await.unwrap_err();
        assert!(!failure.permanent && failure.reply.starts_with("535"), "{failure:?}");
        let both = Extensions { auth_plain: true, ..login };
        logged_in(both, &[("AUTH PLAIN AGFuYQBwZW5jaWw=", "235 ok")]).await.unwrap();
        let failure = logged_in(Extensions::default(), &[]).await.unwrap_err();
        assert!(failure.reply.contains("neither"), "{failure:?}");
    }
}
