//! Any bytes as the responses of a SASL exchange, and as an address. For fuzz targets, and for the
//! tests below.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use posthaste_mail_model::Secret;
use posthaste_net::ClientCertificate;
use posthaste_store::MemoryEngine;
use tokio::runtime::Runtime;

use crate::sasl::{Channel, Exchange, Plaintext, SaslStep, TlsBindings};
use crate::{
    Address, CertificateLogins, Client, Directory, Granted, LoginSettings, NewAccount, Policy, Service,
    TokenCheck, TokenError,
};

/// The account of the tests, and its password.
const NAME: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

/// The place of the nonce of the last challenge, which no input can know.
const NONCE: &[u8] = b"NONCE";

/// Runs one SASL exchange. The first byte chooses mechanism and channel; 0xFF, which no UTF-8
/// has, separates the responses. A login succeeds only if the responses hold the password.
pub fn sasl(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let (runtime, directory) = world();
    let mechanisms = match first & 128 {
        0 => ["PLAIN", "LOGIN", "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"],
        _ => ["OAUTHBEARER", "XOAUTH2", "EXTERNAL", "EXTERNAL"],
    };
    let mechanism = mechanisms[usize::from(first & 3)];
    let bindings = TlsBindings { exporter: (first & 8 != 0).then(|| vec![1; 32]), server_end_point: None };
    let channel = Channel {
        client: Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), service: Service::Imap },
        certificate: (first & 4 != 0).then(of_nobody),
        tls: (first & 4 != 0).then_some(bindings),
        plaintext: if first & 16 != 0 { Plaintext::Refused } else { Plaintext::Allowed },
        scram: if first & 32 != 0 { Plaintext::Refused } else { Plaintext::Allowed },
    };
    let protected = channel.protects_passwords();
    let Ok(mut exchange) = Exchange::begin(directory, mechanism, channel) else { return };
    assert!(protected || first & 2 != 0, "a mechanism that sends passwords, in clear");
    let mut nonce = Vec::new();
    let none = (first & 64 != 0).then_some(None);
    let responses = none.into_iter().chain(rest.split(|byte| *byte == 0xff).map(Some));
    for response in responses {
        let response = response.map(|bytes| replaced(bytes, &nonce));
        match runtime.block_on(exchange.step(directory, response.as_deref())) {
            SaslStep::Challenge(octets) => {
                // server-first-message begins with the nonce: RFC 5802 §7.
                if let Some(found) = octets.strip_prefix(b"r=") {
                    nonce = found.split(|byte| *byte == b',').next().unwrap_or_default().to_vec();
                }
            }
            SaslStep::Done(login) => {
                let account = login.account;
                let has_password = rest.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
                assert!(has_password && account.name == NAME, "{} got in by {mechanism}", account.name);
                return;
            }
            SaslStep::Fail(error) | SaslStep::Refuse { error, .. } => {
                assert!(!format!("{error} {error:?}").contains(PASSWORD), "a password is logged");
                return;
            }
        }
    }
}

/// A parsed address is the same when it is printed and parsed again.
pub fn address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(address) = Address::parse(text) {
        // Its detail keeps the letters of the sender, all else has its normal form.
        let again = Address::parse(address.as_str()).map(|again| again.to_string());
        assert_eq!(again, Ok(address.to_string()));
        if let Some((user, _)) = address.split_detail() {
            assert_eq!(Address::parse(user.as_str()).map(|user| user.to_string()), Ok(user.to_string()));
        }
    }
}

/// A valid certificate of no account.
fn of_nobody() -> ClientCertificate {
    let ends = Some(SystemTime::now() + Duration::from_secs(3600));
    ClientCertificate {
        fingerprint: [0; 32],
        emails: vec!["nobody@example.org".into()],
        common_name: None,
        ends,
    }
}

/// Takes no token.
struct NoToken;

#[async_trait]
impl TokenCheck for NoToken {
    async fn check(&self, _: &Secret<String>) -> Result<Granted, TokenError> {
        Err(TokenError::Invalid("the token is forged"))
    }

    fn scope(&self) -> &str {
        "mail"
    }

    fn discovery(&self) -> Option<&str> {
        None
    }
}

fn replaced(bytes: &[u8], nonce: &[u8]) -> Vec<u8> {
    match bytes.windows(NONCE.len()).position(|part| part == NONCE) {
        Some(at) => [&bytes[..at], nonce, &bytes[at + NONCE.len()..]].concat(),
        None => bytes.to_vec(),
    }
}

/// One directory for all inputs: an account costs more than an exchange. Failures on loopback slow
/// down their own account and refuse nobody, so that each input is judged alike.
fn world() -> &'static (Runtime, Directory) {
    static WORLD: OnceLock<(Runtime, Directory)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let engine = Arc::new(MemoryEngine::new());
        let directory = Directory::with_policy(engine, Policy::cheap_for_tests()).expect("a directory");
        let certificates = CertificateLogins::Email;
        directory.set_logins(LoginSettings { certificates, tokens: Some(Arc::new(NoToken)) });
        let password = Secret::new(PASSWORD.to_owned());
        runtime.block_on(directory.add(NAME, &password, NewAccount::default())).expect("an account");
        (runtime, directory)
    })
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn nobody_gets_in_by_any_bytes() {
        fuzz_seeds("sasl", 4_000, sasl);
    }

    #[test]
    fn a_valid_address_stays_the_same() {
        fuzz_seeds("address", 100_000, address);
    }
}
