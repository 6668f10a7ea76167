//! One conversation with one filter about one message.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use posthaste_net::SocketAddress;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

use crate::draft::Draft;
use crate::packet::{ACTIONS, Answer, DATA_LEN_MAX, VERSION, VERSION_MIN, command, flags, strings};

/// Octets of a body in one packet: the protocol's own limit.
const BODY_CHUNK: usize = 65_535;
/// How often a filter's PROGRESS extends its time.
const PROGRESS_MAX: u32 = 20;
/// The number of changes of a filter at the end of a message.
const CHANGES_MAX: usize = 4_000;
/// Octets by which a replaced body may exceed the message.
const BODY_MORE_MAX: usize = 16 * 1024 * 1024;
/// Octets of a recipient that a filter adds or removes, with its brackets. An address has 254.
const PATH_MAX: usize = 1_024;
/// The whole conversation about one message, unless a single answer may take longer: a client
/// waits so long for the reply to its message (RFC 5321 §4.5.3.2.6).
const ALL_WITHIN: Duration = Duration::from_secs(600);

/// A filter.
#[derive(Clone, Debug)]
pub struct Milter {
    place: SocketAddress,
    within: Duration,
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug)]
pub struct Connected<'c> {
    /// This server's name.
    pub host: &'c str,
    /// The client's address.
    pub address: IpAddr,
    /// The port of the client.
    pub port: u16,
    /// Its name in DNS, if it leads back to the address.
    pub name: Option<&'c str>,
    /// Its name in EHLO or HELO.
    pub helo: &'c str,
}

/// The envelope of a message.
#[derive(Clone, Debug)]
pub struct Envelope<'e> {
    /// The connection.
    pub client: Connected<'e>,
    /// Our own name of the message.
    pub id: &'e str,
    /// The sender; empty for a report.
    pub from: &'e str,
    /// All recipients.
    pub to: Vec<&'e str>,
}

/// A reply of a filter for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// 4xx or 5xx.
    pub code: u16,
    /// The rest of the line, in ASCII.
    pub text: String,
}

/// The verdict on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is delivered.
    Accept,
    /// It is discarded, and the client gets a positive reply.
    Discard,
    /// It is refused.
    Reject(Option<Said>),
    /// It is refused for now.
    Defer(Option<Said>),
}

/// A filter's verdict on a message, without the changes of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The reason of a quarantine.
    pub quarantine: Option<String>,
    /// Recipients that it gets.
    pub added: Vec<String>,
    /// Recipients that it loses.
    pub removed: Vec<String>,
}

/// Why a filter gave no verdict.
#[derive(Debug, thiserror::Error)]
pub enum MilterError {
    /// It cannot be reached, or it ended the connection.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// It did not answer.
    #[error("{0} does not answer in time")]
    Late(String),
    /// Its answer is not of the protocol.
    #[error("{0} does not speak the milter protocol: {1}")]
    Protocol(String, &'static str),
}

pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

struct Conversation<'m> {
    milter: &'m Milter,
    socket: Box<dyn Socket>,
    /// The steps that the filter skips or does not answer.
    flags: u32,
}

/// How a stage of the conversation ended.
enum StageOutcome {
    /// The next stage follows.
    Continue,
    /// The rest of this stage is left out.
    Skip,
    /// The filter has decided.
    Final(Verdict),
}

impl fmt::Display for Milter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "milter {}", self.place)
    }
}

impl Milter {
    /// A filter at this address, with this time for each answer.
    pub fn new(place: SocketAddress, within: Duration) -> Self {
        Self { place, within }
    }

    /// Sends a message to the filter and makes the changes that it requests. After an error the
    /// draft may be changed in part: it must not be used.
    #[boxed]
    pub async fn ask(&self, envelope: &Envelope<'_>, draft: &mut Draft) -> Result<Outcome, MilterError> {
        self.converse(self.connect().await?, envelope, draft).await
    }

    /// The same with a filter at the other end of a stream.
    pub(crate) async fn converse(
        &self,
        socket: Box<dyn Socket>,
        envelope: &Envelope<'_>,
        draft: &mut Draft,
    ) -> Result<Outcome, MilterError> {
        let mut talk = Conversation { milter: self, socket, flags: 0 };
        let ended = timeout(self.within.max(ALL_WITHIN), async {
            talk.negotiate().await?;
            talk.all(envelope, draft).await
        });
        let outcome = ended.await.unwrap_or_else(|_| Err(MilterError::Late(self.to_string())));
        if outcome.is_ok() {
            let _ = talk.send_command(b'Q', &[]).await;
        }
        outcome
    }

    async fn connect(&self) -> Result<Box<dyn Socket>, MilterError> {
        let connect = async {
            Ok::<Box<dyn Socket>, std::io::Error>(match &self.place {
                SocketAddress::Tcp(address) => Box::new(TcpStream::connect(address).await?),
                SocketAddress::Unix(path) => Box::new(UnixStream::connect(path).await?),
            })
        };
        let connected = timeout(self.within, connect).await;
        connected.map_err(|_| MilterError::Late(self.to_string()))?.map_err(|e| self.io(e))
    }

    fn io(&self, error: std::io::Error) -> MilterError {
        MilterError::Io(self.to_string(), error)
    }

    fn wrong(&self, why: &'static str) -> MilterError {
        MilterError::Protocol(self.to_string(), why)
    }
}

impl Conversation<'_> {
    async fn negotiate(&mut self) -> Result<(), MilterError> {
        let offer = [VERSION, ACTIONS, flags::ALL].map(u32::to_be_bytes).concat();
        self.send_command(b'O', &offer).await?;
        match self.read_answer().await? {
            Answer::Options(version, actions, wanted)
                if (VERSION_MIN..=VERSION).contains(&version)
                    && actions & !ACTIONS & !0x100 == 0
                    && wanted & !flags::ALL == 0 =>
            {
                self.flags = wanted;
                Ok(())
            }
            Answer::Options(..) => Err(self.milter.wrong("it requests options that were not offered")),
            _ => Err(self.milter.wrong("no options came")),
        }
    }

    async fn all(&mut self, envelope: &Envelope<'_>, draft: &mut Draft) -> Result<Outcome, MilterError> {
        if let Some(verdict) = self.envelope(envelope).await? {
            return Ok(Outcome::only(verdict));
        }
        if let Some(verdict) = self.content(draft).await? {
            return Ok(Outcome::only(verdict));
        }
        self.macros(b'E', &[("i", envelope.id)]).await?;
        self.send_command(b'E', &[]).await?;
        self.end(draft).await
    }

    /// Everything before DATA; the verdict if there is one already.
    async fn envelope(&mut self, envelope: &Envelope<'_>) -> Result<Option<Verdict>, MilterError> {
        let Envelope { client, id, from, to } = envelope;
        let Connected { host, address, port, name, helo } = client;
        let ip = address.to_string();
        let name = name.map_or_else(|| format!("[{ip}]"), str::to_owned);
        let about = [
            ("j", *host),
            ("{daemon_name}", "smtp"),
            ("{client_addr}", ip.as_str()),
            ("{client_name}", name.as_str()),
        ];
        self.macros(b'C', &about).await?;
        let family = if address.is_ipv4() { b"4" } else { b"6" };
        let connect =
            [&strings([name.as_bytes()]), family.as_slice(), &port.to_be_bytes(), &strings([ip.as_bytes()])]
                .concat();
        let steps = [
            (b'C', connect, flags::NO_CONNECT, flags::NR_CONNECT),
            (b'H', strings([helo.as_bytes()]), flags::NO_HELO, flags::NR_HELO),
        ];
        for (letter, data, without, silent) in steps {
            if let StageOutcome::Final(verdict) = self.step(letter, &data, without, silent).await? {
                return Ok(Some(verdict));
            }
        }
        self.macros(b'M', &[("i", *id), ("{mail_addr}", *from)]).await?;
        let path = strings([format!("<{from}>").as_bytes()]);
        if let StageOutcome::Final(verdict) = self.step(b'M', &path, flags::NO_MAIL, flags::NR_MAIL).await? {
            return Ok(Some(verdict));
        }
        for to in to {
            self.macros(b'R', &[("{rcpt_addr}", *to)]).await?;
            let path = strings([format!("<{to}>").as_bytes()]);
            match self.step(b'R', &path, flags::NO_RCPT, flags::NR_RCPT).await? {
                StageOutcome::Final(verdict) => return Ok(Some(verdict)),
                StageOutcome::Skip => break,
                StageOutcome::Continue => {}
            }
        }
        match self.step(b'T', &[], flags::NO_DATA, flags::NR_DATA).await? {
            StageOutcome::Final(verdict) => Ok(Some(verdict)),
            _ => Ok(None),
        }
    }

    /// Header and body; the verdict if there is one already.
    async fn content(&mut self, draft: &Draft) -> Result<Option<Verdict>, MilterError> {
        for (name, value) in draft.fields() {
            // Lines within a value end with LF.
            let value: Vec<u8> = value.iter().copied().filter(|octet| *octet != b'\r').collect();
            let value = match self.flags & flags::LEADING_SPACE {
                0 => value.trim_ascii_start(),
                _ => &value,
            };
            match self.step(b'L', &strings([name, value]), flags::NO_HEADERS, flags::NR_HEADER).await? {
                StageOutcome::Final(verdict) => return Ok(Some(verdict)),
                StageOutcome::Skip => break,
                StageOutcome::Continue => {}
            }
        }
        if let StageOutcome::Final(verdict) = self.step(b'N', &[], flags::NO_EOH, flags::NR_EOH).await? {
            return Ok(Some(verdict));
        }
        for chunk in draft.body().chunks(BODY_CHUNK) {
            match self.step(b'B', chunk, flags::NO_BODY, flags::NR_BODY).await? {
                StageOutcome::Final(verdict) => return Ok(Some(verdict)),
                StageOutcome::Skip => break,
                StageOutcome::Continue => {}
            }
        }
        Ok(None)
    }

    /// The changes of the filter, and its verdict.
    async fn end(&mut self, draft: &mut Draft) -> Result<Outcome, MilterError> {
        let mut outcome = Outcome::only(Verdict::Accept);
        let body_max = draft.body().len() + BODY_MORE_MAX;
        for _ in 0..CHANGES_MAX {
            match self.read_answer().await? {
                Answer::AddHeader(name, value) => draft.add(&name, &value),
                Answer::InsertHeader(at, name, value) => draft.insert(at as usize, &name, &value),
                Answer::ChangeHeader(nth, name, value) => draft.change(nth as usize, &name, &value),
                Answer::ReplaceBody(part) => {
                    draft.replace_body(&part);
                    if draft.replaced_len() > body_max {
                        return Err(self.milter.wrong("the other body is too long"));
                    }
                }
                Answer::AddRecipient(to) => outcome.added.push(self.recipient(&to)?),
                Answer::DeleteRecipient(to) => outcome.removed.push(self.recipient(&to)?),
                // The sender is in trace fields and records already, so it does not change.
                Answer::ChangeFrom(_) | Answer::Progress => {}
                Answer::Quarantine(why) => outcome.quarantine = Some(why),
                answer => {
                    draft.apply_body().await;
                    return match self.verdict(answer)? {
                        StageOutcome::Final(verdict) => Ok(Outcome { verdict, ..outcome }),
                        _ => Ok(outcome),
                    };
                }
            }
        }
        Err(self.milter.wrong("it requests too many changes"))
    }

    /// A recipient that the filter names, without its angle brackets.
    fn recipient(&self, path: &str) -> Result<String, MilterError> {
        match path.len() <= PATH_MAX {
            true => Ok(plain(path)),
            false => Err(self.milter.wrong("a recipient is too long")),
        }
    }

    /// Sends one command and reads the answer, unless the filter has declined either.
    async fn step(
        &mut self,
        letter: u8,
        data: &[u8],
        without: u32,
        silent: u32,
    ) -> Result<StageOutcome, MilterError> {
        if self.flags & without != 0 {
            return Ok(StageOutcome::Continue);
        }
        self.send_command(letter, data).await?;
        if self.flags & silent != 0 {
            return Ok(StageOutcome::Continue);
        }
        for _ in 0..PROGRESS_MAX {
            match self.read_answer().await? {
                Answer::Progress => {}
                answer => return self.verdict(answer),
            }
        }
        Err(MilterError::Late(self.milter.to_string()))
    }

    fn verdict(&self, answer: Answer) -> Result<StageOutcome, MilterError> {
        Ok(match answer {
            Answer::Continue => StageOutcome::Continue,
            Answer::Skip => StageOutcome::Skip,
            Answer::Accept => StageOutcome::Final(Verdict::Accept),
            Answer::Discard => StageOutcome::Final(Verdict::Discard),
            Answer::Reject => StageOutcome::Final(Verdict::Reject(None)),
            Answer::Tempfail => StageOutcome::Final(Verdict::Defer(None)),
            Answer::Reply(text) => match said(&text) {
                Some(said) if said.code >= 500 => StageOutcome::Final(Verdict::Reject(Some(said))),
                Some(said) => StageOutcome::Final(Verdict::Defer(Some(said))),
                None => return Err(self.milter.wrong("its reply is not an SMTP reply")),
            },
            _ => return Err(self.milter.wrong("an answer came out of order")),
        })
    }

    async fn macros(&mut self, of: u8, all: &[(&str, &str)]) -> Result<(), MilterError> {
        let names = all.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let data = [&[of], strings(names).as_slice()].concat();
        self.send_command(b'D', &data).await
    }

    async fn send_command(&mut self, letter: u8, data: &[u8]) -> Result<(), MilterError> {
        let packet = command(letter, data);
        let written = timeout(self.milter.within, self.socket.write_all(&packet)).await;
        let written = written.map_err(|_| MilterError::Late(self.milter.to_string()))?;
        written.map_err(|error| self.milter.io(error))
    }

    async fn read_answer(&mut self) -> Result<Answer, MilterError> {
        let until = Instant::now() + self.milter.within;
        let read = async {
            let len = self.socket.read_u32().await? as usize;
            if !(1..=DATA_LEN_MAX).contains(&len) {
                return Ok(None);
            }
            let mut packet = vec![0; len];
            self.socket.read_exact(&mut packet).await?;
            Ok(packet.split_first().and_then(|(letter, data)| Answer::parse(*letter, data)))
        };
        let read = tokio::time::timeout_at(until, read).await;
        let read = read.map_err(|_| MilterError::Late(self.milter.to_string()))?;
        read.map_err(|error| self.milter.io(error))?
            .ok_or_else(|| self.milter.wrong("an answer is malformed"))
    }
}

impl Outcome {
    fn only(verdict: Verdict) -> Self {
        Self { verdict, quarantine: None, added: Vec::new(), removed: Vec::new() }
    }
}

/// An address without its angle brackets.
fn plain(path: &str) -> String {
    path.trim().trim_start_matches('<').trim_end_matches('>').to_owned()
}

/// A reply of SMTP: a code of 4xx or 5xx and a line.
fn said(reply: &str) -> Option<Said> {
    /// RFC 5321 §4.5.3.1.5.
    const CHARS_MAX: usize = 400;
    let (code, text) = reply.split_at_checked(3)?;
    let code = code.parse().ok().filter(|code| (400..600).contains(code))?;
    let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    let line = text.lines().next().unwrap_or_default().trim_start_matches(['-', ' ']);
    Some(Said { code, text: line.chars().filter(is_plain).take(CHARS_MAX).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets that a filter gets of a client with this name. It accepts at once.
    async fn heard(name: Option<&str>) -> Vec<u8> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let options = [VERSION, ACTIONS, 0].map(u32::to_be_bytes).concat();
        theirs.write_all(&[command(b'O', &options), command(b'a', &[])].concat()).await.unwrap();
        let milter = Milter::new(SocketAddress::Unix("/filter".into()), Duration::from_secs(60));
        let address = IpAddr::from([192, 0, 2, 1]);
        let client = Connected { host: "mx.test", address, port: 25, name, helo: "helo.test" };
        let envelope = Envelope { client, id: "1", from: "a@b.test", to: vec!["ana@example.org"] };
        let mut draft = Draft::new(&bytes::Bytes::from_static(b"Subject: s\r\n\r\n"));
        milter.converse(Box::new(ours), &envelope, &mut draft).await.unwrap();
        let mut said = Vec::new();
        theirs.read_to_end(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_filter_hears_the_name_of_the_client() {
        for (name, wanted) in [(Some("mail.b.test"), "mail.b.test"), (None, "[192.0.2.1]")] {
            let said = heard(name).await;
            let has = |part: &[u8]| said.windows(part.len()).any(|found| found == part);
            assert!(has(format!("{{client_name}}\0{wanted}\0").as_bytes()), "{}", said.escape_ascii());
            assert!(has(format!("C{wanted}\04\0\x19192.0.2.1\0").as_bytes()), "{}", said.escape_ascii());
        }
    }

    /// How the conversation with a filter without steps ends, if its answers come after pauses.
    async fn ended(answers: Vec<Vec<u8>>, pause: Duration) -> Result<Outcome, MilterError> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let options = [VERSION, ACTIONS, flags::ALL].map(u32::to_be_bytes).concat();
        theirs.write_all(&command(b'O', &options)).await.unwrap();
        let filter = async move {
            for answer in answers {
                tokio::time::sleep(pause).await;
                if theirs.write_all(&answer).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        let milter = Milter::new(SocketAddress::Unix("/filter".into()), Duration::from_secs(60));
        let address = IpAddr::from([192, 0, 2, 1]);
        let client = Connected { host: "mx.test", address, port: 25, name: None, helo: "helo.test" };
        let envelope = Envelope { client, id: "1", from: "a@b.test", to: vec!["ana@example.org"] };
        let mut draft = Draft::new(&bytes::Bytes::from_static(b"Subject: s\r\n\r\n"));
        let talk = milter.converse(Box::new(ours), &envelope, &mut draft);
        tokio::select! {
            outcome = talk => outcome,
            () = filter => unreachable!("it never ends"),
        }
    }

    /// Each answer in its time, for two days.
    #[tokio::test(start_paused = true)]
    async fn a_conversation_has_an_end() {
        let answers = vec![command(b'p', &[]); CHANGES_MAX];
        let outcome = ended(answers, Duration::from_secs(59)).await;
        assert!(matches!(outcome, Err(MilterError::Late(_))), "{outcome:?}");
    }

    /// Thousands of them could have a mebibyte each.
    #[tokio::test]
    async fn recipients_of_filters_have_a_bound() {
        let long = [&b"<"[..], &[b'a'; PATH_MAX], b">\0"].concat();
        for letter in *b"+-" {
            let answers = vec![command(letter, b"<bo@b.test>\0"), command(b'a', &[])];
            assert!(ended(answers, Duration::ZERO).await.is_ok());
            let outcome = ended(vec![command(letter, &long)], Duration::ZERO).await;
            assert!(matches!(outcome, Err(MilterError::Protocol(..))), "{outcome:?}");
        }
    }

    #[test]
    fn replies() {
        let said = |text: &str| said(text).map(|said| (said.code, said.text));
        assert_eq!(said("451 4.7.1 later\r\n250 no"), Some((451, "4.7.1 later".into())));
        assert_eq!(said("550-5.7.1 a\u{7}b"), Some((550, "5.7.1 ab".into())));
        for wrong in ["", "55", "250 ok", "abc x", "é50 x"] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }
}
