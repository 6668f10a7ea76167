//! SCRAM-SHA-256 (RFC 7677), SCRAM-SHA-1 (RFC 5802) and their -PLUS, the server's side.
//!
//! ```text
//! client-first   gs2-header "n=" name ",r=" c-nonce            gs2-header = ("n" / "y" / "p=" type) "," ["a=" authzid] ","
//! server-first   "r=" c-nonce s-nonce ",s=" salt ",i=" iterations
//! client-final   "c=" base64(gs2-header [channel-binding-data]) ",r=" nonce ",p=" proof
//! server-final   "v=" signature, which the client answers with an empty response
//! ```
//!
//! An unknown name gets a salt like any other, the same each time, and fails only at the end. RFC
//! 5802 §7 leaves the order open. This order does not reveal which names exist.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_store::CommitOutcome;
use subtle::ConstantTimeEq;
use tokio::sync::OnceCell;

use crate::account::Account;
use crate::address::{Address, same_user};
use crate::attempt::key_of;
use crate::directory::Directory;
use crate::error::{DirectoryError, Result as DirectoryResult};
use crate::grant::{By, Login, Proven};
use crate::login_error::{LoginError, LoginFailure, enabled};
use crate::password::{self, Credentials, KEY_LEN, SCRAM_ITERATIONS};
use crate::record;
use crate::sasl::channel::Channel;
use crate::scram_keys::{ScramHash, ScramKeys};
use crate::throttle::Attempt;

/// Octets of our part of the nonce before base64: 144 bits, 24 characters.
const NONCE_LEN: usize = 18;

/// The expected gs2-cbind-flag of the client: RFC 5802 §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// The mechanism is -PLUS.
    Demanded,
    /// The mechanism is not -PLUS, which was offered too.
    Offered,
    /// -PLUS was not offered.
    Impossible,
}

impl Binding {
    /// For a mechanism without -PLUS.
    pub fn of(channel: &Channel) -> Self {
        if channel.can_bind() { Self::Offered } else { Self::Impossible }
    }
}

pub(super) enum ScramStep {
    Send(Vec<u8>),
    Done(Box<Login>),
}

/// The server's state between messages.
pub(super) struct Server {
    hash: ScramHash,
    binding: Binding,
    state: ScramState,
    /// The account that the client named.
    name: String,
    #[cfg(test)]
    nonce_fixed: Option<String>,
}

enum ScramState {
    ClientFirst,
    ClientFinal(Box<Pending>),
    /// The signature is sent; the client's empty response is awaited.
    Acknowledge(Arc<Account>),
    Over,
}

/// The values against which client-final is checked.
struct Pending {
    /// `None` for nobody, and for an account without keys.
    account: Option<Arc<Account>>,
    keys: ScramKeys,
    name: Option<Address>,
    nonce: String,
    /// gs2-header and channel binding data, as `c=` must repeat them.
    bound: Vec<u8>,
    /// `client-first-message-bare "," server-first-message ","`
    auth_message: String,
}

impl Server {
    pub fn new(hash: ScramHash, binding: Binding) -> Self {
        Self {
            hash,
            binding,
            state: ScramState::ClientFirst,
            name: String::new(),
            #[cfg(test)]
            nonce_fixed: None,
        }
    }

    /// The account that the client named; empty before that.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends this instead of a random nonce.
    #[cfg(test)]
    pub fn fix_nonce(&mut self, nonce: &str) {
        self.nonce_fixed = Some(nonce.to_owned());
    }

    #[boxed]
    pub async fn step(
        &mut self,
        directory: &Directory,
        channel: &Channel,
        response: &[u8],
    ) -> Result<ScramStep, LoginError> {
        let text = std::str::from_utf8(response)
            .map_err(|_| LoginError::at_once(LoginFailure::Malformed("a SCRAM message is UTF-8")))?;
        match std::mem::replace(&mut self.state, ScramState::Over) {
            ScramState::ClientFirst => {
                let first = ClientFirst::parse(text, self.binding, channel).map_err(LoginError::at_once)?;
                self.name.clone_from(&first.name);
                let (pending, challenge) = self
                    .answer_first(directory, first)
                    .await
                    .map_err(|e| LoginError::at_once(LoginFailure::Unavailable(e)))?;
                self.state = ScramState::ClientFinal(Box::new(pending));
                Ok(ScramStep::Send(challenge.into_bytes()))
            }
            ScramState::ClientFinal(pending) => {
                let last = ClientFinal::parse(text, self.hash).map_err(LoginError::at_once)?;
                let attempt = directory.begin_attempt(channel.client, key_of(pending.name.as_ref()));
                let (account, signature) = finish(self.hash, *pending, &last, attempt)?;
                directory.succeed(attempt);
                self.state = ScramState::Acknowledge(enabled(account)?);
                Ok(ScramStep::Send(format!("v={}", STANDARD.encode(signature)).into_bytes()))
            }
            ScramState::Acknowledge(account) if text.is_empty() => {
                let proven = Proven::new(account, By::Password);
                Ok(ScramStep::Done(Box::new(directory.confirm(Ok(proven)).await?)))
            }
            ScramState::Acknowledge(_) => {
                Err(LoginError::at_once(LoginFailure::Malformed("the last response must be empty")))
            }
            ScramState::Over => Err(LoginError::at_once(LoginFailure::Malformed("the exchange is over"))),
        }
    }

    /// Looks the user up and makes server-first-message.
    async fn answer_first(
        &self,
        directory: &Directory,
        first: ClientFirst<'_>,
    ) -> DirectoryResult<(Pending, String)> {
        let name = Address::parse(&first.name).ok();
        let stored = directory.stored_for_login(name.as_ref()).await?;
        let decoy = decoy(directory, self.hash, &first.name).await?;
        let (account, keys) = match stored {
            Some(stored) => match self.keys_of(&stored.credentials) {
                Some(keys) => (Some(Arc::clone(&stored.account)), keys),
                None => (None, decoy),
            },
            None => (None, decoy),
        };
        let nonce = format!("{}{}", first.nonce, self.nonce()?);
        let challenge = format!("r={nonce},s={},i={}", STANDARD.encode(&keys.salt), keys.iterations);
        let auth_message = format!("{},{challenge},", first.bare);
        Ok((Pending { account, keys, name, nonce, bound: first.bound, auth_message }, challenge))
    }

    fn keys_of(&self, credentials: &Credentials) -> Option<ScramKeys> {
        match self.hash {
            ScramHash::Sha256 => credentials.scram.clone(),
            ScramHash::Sha1 => credentials.scram_sha1.clone(),
        }
    }

    fn nonce(&self) -> DirectoryResult<String> {
        #[cfg(test)]
        if let Some(nonce) = &self.nonce_fixed {
            return Ok(nonce.clone());
        }
        Ok(STANDARD.encode(password::random::<NONCE_LEN>()?))
    }
}

/// Checks client-final and makes the signature: RFC 5802 §3.
fn finish(
    hash: ScramHash,
    pending: Pending,
    last: &ClientFinal<'_>,
    attempt: Attempt,
) -> Result<(Arc<Account>, Vec<u8>), LoginError> {
    let refused = |failure| LoginError { failure, delay: attempt.delay };
    if attempt.refused {
        return Err(refused(LoginFailure::TooMany));
    }
    if last.nonce != pending.nonce {
        return Err(refused(LoginFailure::Malformed("the nonce is not the one that was sent")));
    }
    if last.bound != pending.bound {
        return Err(refused(LoginFailure::ChannelBinding("the client is bound to another channel")));
    }
    let auth_message = format!("{}{}", pending.auth_message, last.without_proof);
    let client_signature = hash.hmac(&pending.keys.stored_key, auth_message.as_bytes());
    let mut client_key = last.proof.clone();
    for (byte, mask) in client_key.iter_mut().zip(client_signature) {
        *byte ^= mask;
    }
    let stored_key = hash.digest(&client_key);
    let right = bool::from(stored_key.ct_eq(&pending.keys.stored_key));
    match pending.account {
        Some(account) if right => Ok((account, hash.hmac(&pending.keys.server_key, auth_message.as_bytes()))),
        _ => Err(refused(LoginFailure::Credentials)),
    }
}

/// Keys for a name that nobody has: its own salt each time, and a stored key that no proof fits.
async fn decoy(directory: &Directory, hash: ScramHash, name: &str) -> DirectoryResult<ScramKeys> {
    let key = decoy_key(directory, &directory.decoy_key).await?;
    let name = Address::parse(name).map_or_else(|_| name.to_owned(), |a| a.to_string());
    let iterations = directory.policy.scram_iterations.unwrap_or(SCRAM_ITERATIONS);
    Ok(ScramKeys::decoy(hash, &key, &name, iterations))
}

/// The key decoys are made with: one for the whole store, so that no restart and no other node
/// shows another salt.
async fn decoy_key(directory: &Directory, cell: &OnceCell<[u8; KEY_LEN]>) -> DirectoryResult<[u8; KEY_LEN]> {
    let load = || async {
        for _ in 0..2 {
            if let Some(entry) = directory.records.entry(record::DECOY).await? {
                return record::read_decoy(&entry);
            }
            let key = password::random()?;
            let value = record::write_decoy(&key)?;
            if directory.records.put(record::DECOY.to_owned(), 0, Some(value)).await? == CommitOutcome::Done {
                return Ok(key);
            }
        }
        Err(DirectoryError::Busy(record::DECOY.to_owned()))
    };
    cell.get_or_try_init(load).await.copied()
}

/// `client-first-message`, RFC 5802 §7.
struct ClientFirst<'a> {
    name: String,
    nonce: &'a str,
    bare: &'a str,
    bound: Vec<u8>,
}

impl<'a> ClientFirst<'a> {
    fn parse(text: &'a str, binding: Binding, channel: &Channel) -> Result<Self, LoginFailure> {
        let malformed = LoginFailure::Malformed("a SCRAM first message is n,,n=name,r=nonce");
        let (flag, rest) = text.split_once(',').ok_or(malformed.clone())?;
        let (authorization, bare) = rest.split_once(',').ok_or(malformed.clone())?;
        let bound_data = binding_data(flag, binding, channel)?;
        let mut fields = bare.split(',');
        let mut field =
            |name: &str| fields.next().and_then(|f| f.strip_prefix(name)).ok_or(malformed.clone());
        // "m=" comes first if at all, and must be refused: RFC 5802 §5.1.
        let (name, nonce) = (unescape(field("n=")?)?, field("r=")?);
        if name.is_empty() || nonce.is_empty() || !nonce.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(malformed);
        }
        if !authorization.is_empty() {
            let authorization = unescape(authorization.strip_prefix("a=").ok_or(malformed)?)?;
            if !same_user(&authorization, &name) {
                return Err(LoginFailure::AuthorizationId);
            }
        }
        let header = text.len() - bare.len();
        let mut bound = text.as_bytes()[..header].to_vec();
        bound.extend_from_slice(bound_data);
        Ok(Self { name, nonce, bare, bound })
    }
}

/// The data to which the client must be bound, by its gs2-cbind-flag: RFC 5802 §6.
fn binding_data<'c>(flag: &str, binding: Binding, channel: &'c Channel) -> Result<&'c [u8], LoginFailure> {
    let tls = channel.tls.as_ref();
    match (flag, binding) {
        ("n", Binding::Offered | Binding::Impossible) | ("y", Binding::Impossible) => Some(&[][..]),
        // The client could bind and believes that we cannot: someone between us cut -PLUS out of
        // the list.
        ("y", Binding::Offered) => {
            return Err(LoginFailure::ChannelBinding("this server does offer SCRAM-SHA-256-PLUS"));
        }
        ("p=tls-exporter", Binding::Demanded) => tls.and_then(|t| t.exporter.as_deref()),
        ("p=tls-server-end-point", Binding::Demanded) => tls.and_then(|t| t.server_end_point.as_deref()),
        ("n" | "y", Binding::Demanded) => None,
        (flag, _) if flag.starts_with("p=") => None,
        _ => return Err(LoginFailure::Malformed("a SCRAM message begins with n, y or p=")),
    }
    .ok_or(LoginFailure::ChannelBinding("that type of channel binding is not supported"))
}

/// `client-final-message`, RFC 5802 §7.
struct ClientFinal<'a> {
    bound: Vec<u8>,
    nonce: &'a str,
    proof: Vec<u8>,
    without_proof: &'a str,
}

impl<'a> ClientFinal<'a> {
    fn parse(text: &'a str, hash: ScramHash) -> Result<Self, LoginFailure> {
        let malformed = LoginFailure::Malformed("a SCRAM final message is c=binding,r=nonce,p=proof");
        // The proof is last, and base64 holds no comma.
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(malformed.clone())?;
        let mut fields = without_proof.split(',');
        let mut field =
            |name: &str| fields.next().and_then(|f| f.strip_prefix(name)).ok_or(malformed.clone());
        let (bound, nonce) = (field("c=")?, field("r=")?);
        let proof = STANDARD.decode(proof).ok().filter(|p| p.len() == hash.len()).ok_or(malformed.clone())?;
        Ok(Self { bound: STANDARD.decode(bound).map_err(|_| malformed)?, nonce, proof, without_proof })
    }
}

/// `saslname`: `=2C` for a comma, `=3D` for an equals sign, no other `=` (RFC 5802 §5.1).
pub(super) fn unescape(name: &str) -> Result<String, LoginFailure> {
    let mut out = String::with_capacity(name.len());
    let mut pieces = name.split('=');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (c, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(LoginFailure::Malformed("'=' in a SCRAM name is written =3D")),
        };
        out.push(c);
        out.push_str(rest);
    }
    if out.contains('\0') { Err(LoginFailure::Malformed("a SCRAM name holds no NUL")) } else { Ok(out) }
}
