//! Exchanges against a client written here from the RFCs, and the RFCs' own examples.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_property::properties;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::password::{Credentials, KEY_LEN, MacKey, Policy};
use crate::record::Stored;
use crate::scram_keys::ScramKeys;
use crate::testing::{Ending, MemoryRecords, add, directory, other_process};
use crate::{AccountChange, Directory, LoginFailure};

fn channel(tls: Option<TlsBindings>, plaintext: Plaintext) -> Channel {
    let client = crate::Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), service: crate::Service::Imap };
    Channel { client, tls, certificate: None, plaintext, scram: Plaintext::Refused }
}

fn plain_channel() -> Channel {
    channel(None, Plaintext::Allowed)
}

fn tls_channel() -> Channel {
    let tls = TlsBindings { exporter: Some(vec![1; 32]), server_end_point: Some(vec![2; 32]) };
    channel(Some(tls), Plaintext::Refused)
}

/// TLS 1.2, where the certificate's hash is all there is.
fn tls_1_2() -> Channel {
    let tls = TlsBindings { exporter: None, server_end_point: Some(vec![2; 32]) };
    channel(Some(tls), Plaintext::Refused)
}

/// Runs an exchange with responses prepared in advance; the outcome of the last.
async fn run(
    directory: &Directory,
    mechanism: &str,
    channel: Channel,
    responses: &[Option<&[u8]>],
) -> SaslStep {
    let mut exchange = match Exchange::begin(directory, mechanism, channel) {
        Ok(exchange) => exchange,
        Err(error) => return SaslStep::Fail(error),
    };
    let mut last = SaslStep::Challenge(Vec::new());
    for response in responses {
        assert!(matches!(last, SaslStep::Challenge(_)), "{last:?}");
        last = exchange.step(directory, *response).await;
    }
    last
}

fn failure(step: SaslStep) -> LoginFailure {
    match step {
        SaslStep::Fail(error) => error.failure,
        other => panic!("{other:?}"),
    }
}

fn challenge(step: SaslStep) -> String {
    match step {
        SaslStep::Challenge(octets) => String::from_utf8(octets).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A SCRAM client: RFC 5802 §3, §5, §7.
struct Client<'a> {
    name: &'a str,
    password: &'a str,
    header: &'a str,
    binding: &'a [u8],
}

impl Client<'_> {
    fn first(&self) -> String {
        format!("{}n={},r=clientnonce", self.header, self.name.replace('=', "=3D").replace(',', "=2C"))
    }

    /// client-final and the signature to expect.
    fn last(&self, challenge: &str) -> (String, String) {
        let mut fields = challenge.split(',');
        let mut field = |name| fields.next().and_then(|f| f.strip_prefix(name)).unwrap();
        let (nonce, salt, iterations) = (field("r="), field("s="), field("i="));
        assert!(nonce.starts_with("clientnonce") && nonce.len() >= "clientnonce".len() + 24);
        let bound = [self.header.as_bytes(), self.binding].concat();
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(bound));
        let first = self.first();
        let message = format!("{},{challenge},{without_proof}", first.strip_prefix(self.header).unwrap());
        let salted: [u8; KEY_LEN] = pbkdf2::pbkdf2_hmac_array::<Sha256, KEY_LEN>(
            self.password.as_bytes(),
            &STANDARD.decode(salt).unwrap(),
            iterations.parse().unwrap(),
        );
        let mut proof = MacKey::new(&salted).mac(&[b"Client Key"]);
        let stored: [u8; KEY_LEN] = Sha256::digest(proof).into();
        for (p, s) in proof.iter_mut().zip(MacKey::new(&stored).mac(&[message.as_bytes()])) {
            *p ^= s;
        }
        let server = MacKey::new(&salted).mac(&[b"Server Key"]);
        let signature = MacKey::new(&server).mac(&[message.as_bytes()]);
        (format!("{without_proof},p={}", STANDARD.encode(proof)), format!("v={}", STANDARD.encode(signature)))
    }

    async fn log_in(&self, directory: &Directory, mechanism: &str, channel: Channel) -> SaslStep {
        let mut exchange = match Exchange::begin(directory, mechanism, channel) {
            Ok(exchange) => exchange,
            Err(error) => return SaslStep::Fail(error),
        };
        let challenge = match exchange.step(directory, Some(self.first().as_bytes())).await {
            SaslStep::Challenge(octets) => String::from_utf8(octets).unwrap(),
            other => return other,
        };
        let (last, signature) = self.last(&challenge);
        match exchange.step(directory, Some(last.as_bytes())).await {
            SaslStep::Challenge(octets) => assert_eq!(String::from_utf8(octets).unwrap(), signature),
            other => return other,
        }
        exchange.step(directory, Some(b"")).await
    }
}

fn client<'a>(name: &'a str, password: &'a str) -> Client<'a> {
    Client { name, password, header: "n,,", binding: b"" }
}

/// Stores an account under another name, or with other keys, than `add` would make.
fn store_keys(records: &MemoryRecords, account: crate::Account, keys: ScramKeys) {
    let credentials = Credentials { argon2: "$unused".into(), scram: Some(keys), scram_sha1: None };
    let name = format!("account/{}", account.name);
    records.put(&name, Stored::new(account, credentials).write().unwrap());
}

#[tokio::test]
async fn the_example_of_rfc_7677() {
    let (records, directory) = directory();
    let user = add(&directory, "user", "pencil").await;
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    store_keys(&records, user, ScramKeys::make(ScramHash::Sha256, "pencil", &salt, 4096));

    let mut server = scram::Server::new(ScramHash::Sha256, scram::Binding::Impossible);
    server.fix_nonce("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
    let exchange = [
        (
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        ),
        (
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
    ];
    for (client, expected) in exchange {
        match server.step(&directory, &plain_channel(), client.as_bytes()).await.unwrap() {
            scram::ScramStep::Send(octets) => assert_eq!(String::from_utf8(octets).unwrap(), expected),
            scram::ScramStep::Done(_) => panic!("too early"),
        }
    }
    let end = server.step(&directory, &plain_channel(), b"").await.unwrap();
    assert!(matches!(end, scram::ScramStep::Done(login) if login.account.name == "user"));
}

/// A directory that offers SCRAM-SHA-1.
fn with_sha1(records: Arc<MemoryRecords>) -> Directory {
    let policy = Policy { scram_sha1: true, ..Policy::cheap_for_tests() };
    Directory::with_policy(records, policy).unwrap()
}

/// The directory of a server that stores no keys for SCRAM.
fn without_scram(records: Arc<MemoryRecords>) -> Directory {
    let policy = Policy { scram_iterations: None, ..Policy::cheap_for_tests() };
    Directory::with_policy(records, policy).unwrap()
}

/// RFC 5802 §5.
#[tokio::test]
async fn the_example_of_rfc_5802() {
    let (records, _) = directory();
    let directory = with_sha1(Arc::clone(&records));
    let account = add(&directory, "user", "pencil").await;
    let salt = STANDARD.decode("QSXCR+Q6sek8bf92").unwrap();
    let keys = ScramKeys::make(ScramHash::Sha1, "pencil", &salt, 4096);
    let credentials = Credentials { argon2: "$unused".into(), scram: None, scram_sha1: Some(keys) };
    records.put("account/user", Stored::new(account, credentials).write().unwrap());
    let mut server = scram::Server::new(ScramHash::Sha1, scram::Binding::Impossible);
    server.fix_nonce("3rfcNHYJY1ZVvWVs7j");
    for (client, expected) in [
        (
            "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        ),
        (
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        ),
    ] {
        match server.step(&directory, &plain_channel(), client.as_bytes()).await.unwrap() {
            scram::ScramStep::Send(octets) => assert_eq!(String::from_utf8(octets).unwrap(), expected),
            scram::ScramStep::Done(_) => panic!("too early"),
        }
    }
    let end = server.step(&directory, &plain_channel(), b"").await.unwrap();
    assert!(matches!(end, scram::ScramStep::Done(login) if login.account.name == "user"));
}

#[tokio::test]
async fn sha_1_is_offered_and_kept_where_it_is_turned_on_alone() {
    let (records, usual) = directory();
    let old = with_sha1(Arc::clone(&records));
    add(&usual, "ana@example.org", "pencil").await;
    assert!(
        !records.dump().contains("scram_sha1") && !names(&usual, &tls_channel()).contains(&"SCRAM-SHA-1")
    );
    assert!(
        matches!(Exchange::begin(&usual, "SCRAM-SHA-1", tls_channel()), Err(e) if e.failure.reason() == "mechanism")
    );
    let offered = "SCRAM-SHA-256-PLUS SCRAM-SHA-256 SCRAM-SHA-1-PLUS SCRAM-SHA-1 PLAIN LOGIN";
    assert_eq!(names(&old, &tls_channel()).join(" "), offered);
    // Its salt is as if nobody were called so, until she logs in with her password.
    let first = async |directory: &Directory, mechanism: &str, name: &str| {
        let mut exchange = Exchange::begin(directory, mechanism, tls_channel()).unwrap();
        match exchange.step(directory, Some(client(name, "").first().as_bytes())).await {
            SaslStep::Challenge(octets) => {
                String::from_utf8(octets).unwrap().split_once(",s=").unwrap().1.to_owned()
            }
            other => panic!("{other:?}"),
        }
    };
    let before = first(&old, "SCRAM-SHA-1", "ana@example.org").await;
    assert_eq!(before, first(&old, "SCRAM-SHA-1", "ANA@example.org").await);
    assert_ne!(before, first(&old, "SCRAM-SHA-256", "ana@example.org").await);
    assert_ne!(
        first(&old, "SCRAM-SHA-1", "bob@example.org").await,
        first(&old, "SCRAM-SHA-256", "bob@example.org").await
    );
    let plain = b"\0ana@example.org\0pencil";
    assert!(matches!(run(&old, "PLAIN", plain_channel(), &[Some(plain)]).await, SaslStep::Done(_)));
    assert!(records.dump().contains("scram_sha1"));
    assert_ne!(before, first(&old, "SCRAM-SHA-1", "ana@example.org").await);
    // Turned off again, the keys go with the next login.
    assert!(matches!(run(&usual, "PLAIN", plain_channel(), &[Some(plain)]).await, SaslStep::Done(_)));
    assert!(!records.dump().contains("scram_sha1"));
}

#[tokio::test]
async fn plain_and_login_in_all_their_forms() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    let exchanges: [(&str, &[Option<&[u8]>]); 6] = [
        ("PLAIN", &[Some(b"\0ana@example.org\0pencil")]),
        ("plain", &[None, Some(b"\0ana@example.org\0pencil")]),
        ("PLAIN", &[Some(b"Ana@Example.org\0ana@example.org\0pencil")]),
        ("LOGIN", &[None, Some(b"ana@example.org"), Some(b"pencil")]),
        ("LOGIN", &[Some(b"ana@example.org"), Some(b"pencil")]),
        ("PLAIN", &[Some(b"\0ana@example.org\0p\xc2\xadencil")]), // a soft hyphen: nothing, says SASLprep
    ];
    for (mechanism, responses) in exchanges {
        let end = run(&directory, mechanism, plain_channel(), responses).await;
        assert!(matches!(&end, SaslStep::Done(login) if login.account.name == "ana@example.org"), "{end:?}");
    }
}

#[tokio::test]
async fn answers_that_plain_and_login_refuse() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    let plain = |response: &'static [u8]| run2(&directory, response);
    assert!(matches!(plain(b"\0ana@example.org\0pen").await, LoginFailure::Credentials));
    assert!(matches!(
        plain(b"ben@example.org\0ana@example.org\0pencil").await,
        LoginFailure::AuthorizationId
    ));
    for response in [
        &b""[..],
        b"ana@example.org\0pencil",
        b"\0ana@example.org\0pencil\0",
        b"\0\0pencil",
        b"\0ana@example.org\0",
        b"\0ana\xff\0pencil",
        &[b'x'; RESPONSE_LEN_MAX + 1],
    ] {
        let end = run(&directory, "PLAIN", plain_channel(), &[Some(response)]).await;
        assert!(matches!(failure(end), LoginFailure::Malformed(_)), "{response:?}");
    }
    let dark = channel(None, Plaintext::Refused);
    for mechanism in ["PLAIN", "LOGIN"] {
        let end = run(&directory, mechanism, dark.clone(), &[]).await;
        assert!(matches!(failure(end), LoginFailure::EncryptionRequired));
    }
    let end = run(&directory, "CRAM-MD5", plain_channel(), &[]).await;
    assert!(matches!(failure(end), LoginFailure::UnknownMechanism));
    let over = run(&directory, "PLAIN", plain_channel(), &[None, None, None]).await;
    assert!(matches!(over, SaslStep::Challenge(_)), "asking again is harmless");
}

async fn run2(directory: &Directory, response: &[u8]) -> LoginFailure {
    failure(run(directory, "PLAIN", plain_channel(), &[Some(response)]).await)
}

#[tokio::test]
async fn scram_round_trips() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    // '=' and ',' are escaped on the way; ',' is no letter of our names, '=' is.
    add(&directory, "a=b@example.org", "p,=\u{1f680}").await;
    for (name, password) in [("ana@example.org", "pencil"), ("a=b@example.org", "p,=\u{1f680}")] {
        let end = client(name, password).log_in(&directory, "SCRAM-SHA-256", plain_channel()).await;
        assert!(matches!(&end, SaslStep::Done(login) if login.account.name == name), "{end:?}");
    }
    let own = Client { header: "n,a=Ana@example.org,", ..client("ana@example.org", "pencil") };
    assert!(matches!(own.log_in(&directory, "SCRAM-SHA-256", plain_channel()).await, SaslStep::Done(_)));
    let other = Client { header: "n,a=ben@example.org,", ..client("ana@example.org", "pencil") };
    let end = other.log_in(&directory, "SCRAM-SHA-256", plain_channel()).await;
    assert!(matches!(failure(end), LoginFailure::AuthorizationId));
}

/// The client decides how long an exchange waits for it.
#[tokio::test]
async fn a_change_during_an_exchange_of_scram_counts() {
    for ending in Ending::ALL {
        // Before client-final, and before the empty response that alone is missing then.
        for changed_before in 0..2 {
            let (records, directory) = directory();
            add(&directory, "ana@example.org", "pencil").await;
            let ana = client("ana@example.org", "pencil");
            let mut exchange = Exchange::begin(&directory, "SCRAM-SHA-256", plain_channel()).unwrap();
            let first = exchange.step(&directory, Some(ana.first().as_bytes())).await;
            let (last, _) = ana.last(&challenge(first));
            let (mut reason, mut end) = ("", SaslStep::Challenge(Vec::new()));
            for (n, response) in [last.as_str(), ""].into_iter().enumerate() {
                challenge(end);
                if n == changed_before {
                    reason = ending.of(&other_process(&records), "ana@example.org").await;
                }
                end = exchange.step(&directory, Some(response.as_bytes())).await;
            }
            assert_eq!(failure(end).reason(), reason, "{ending:?}, {changed_before}");
        }
    }
}

#[tokio::test]
async fn scram_binds_to_the_channel_it_runs_on() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    let ana = |header, binding| Client { header, binding, ..client("ana@example.org", "pencil") };
    const PLUS: &str = "SCRAM-SHA-256-PLUS";
    const BARE: &str = "SCRAM-SHA-256";
    let (exporter, certificate) = ([1u8; 32], [2u8; 32]);
    // RFC 5802 §6: flag, data, mechanism, channel → whether it is let in.
    for (header, data, mechanism, channel, right) in [
        ("p=tls-exporter,,", &exporter[..], PLUS, tls_channel(), true),
        ("p=tls-server-end-point,,", &certificate[..], PLUS, tls_channel(), true),
        ("p=tls-exporter,,", &certificate[..], PLUS, tls_channel(), false), // someone in between
        ("p=tls-unique,,", &exporter[..], PLUS, tls_channel(), false),
        ("n,,", &[], PLUS, tls_channel(), false),
        ("y,,", &[], PLUS, tls_channel(), false),
        ("n,,", &[], BARE, tls_channel(), true),
        ("y,,", &[], BARE, tls_channel(), false), // -PLUS was cut out of the list
        ("y,,", &[], BARE, plain_channel(), true),
        ("p=tls-exporter,,", &exporter[..], BARE, tls_channel(), false),
        ("y,,", &[], BARE, tls_1_2(), true), // -PLUS was never offered
        ("n,,", &[], BARE, tls_1_2(), true),
        ("n,,", &exporter[..], BARE, tls_channel(), false),
    ] {
        let end = ana(header, data).log_in(&directory, mechanism, channel).await;
        match end {
            SaslStep::Done(_) => assert!(right, "{header} {mechanism}"),
            SaslStep::Fail(error) => {
                assert!(
                    !right && matches!(error.failure, LoginFailure::ChannelBinding(_)),
                    "{header} {error}"
                );
            }
            other => panic!("{header} {other:?}"),
        }
    }
    let end = ana("n,,", b"").log_in(&directory, PLUS, plain_channel()).await;
    assert!(matches!(failure(end), LoginFailure::UnknownMechanism));
}

#[tokio::test]
async fn scram_reveals_nothing_to_a_stranger() {
    let (records, directory) = directory();
    let ana = add(&directory, "ana@example.org", "pencil").await;
    add(&directory, "ben@example.org", "pencil").await;
    let first = |name: &'static str| async {
        let mut exchange = Exchange::begin(&directory, "SCRAM-SHA-256", plain_channel()).unwrap();
        match exchange.step(&directory, Some(client(name, "").first().as_bytes())).await {
            SaslStep::Challenge(octets) => {
                String::from_utf8(octets).unwrap().split_once(",s=").unwrap().1.to_owned()
            }
            other => panic!("{other:?}"),
        }
    };
    // A salt of the same form, the same at each request, for each name another.
    let (ana_salt, nobody, again) =
        (first("ana@example.org").await, first("bob@example.org").await, first("BOB@example.org").await);
    assert_eq!((ana_salt.len(), &nobody), (nobody.len(), &again));
    assert_ne!(nobody, first("cy@example.org").await);
    let restarted = other_process(&records);
    let mut exchange = Exchange::begin(&directory, "SCRAM-SHA-256", plain_channel()).unwrap();
    match exchange.step(&restarted, Some(client("bob@example.org", "").first().as_bytes())).await {
        SaslStep::Challenge(octets) => assert!(String::from_utf8(octets).unwrap().ends_with(&nobody)),
        other => panic!("{other:?}"),
    }

    for (name, password) in [("bob@example.org", "pencil"), ("ana@example.org", "pen"), ("a b", "x")] {
        let end = client(name, password).log_in(&directory, "SCRAM-SHA-256", plain_channel()).await;
        assert!(matches!(failure(end), LoginFailure::Credentials), "{name}");
    }
    let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory.set(&ana.name, disable).await.unwrap();
    let end = client("ana@example.org", "pencil").log_in(&directory, "SCRAM-SHA-256", plain_channel()).await;
    assert!(matches!(failure(end), LoginFailure::Disabled));
}

/// The number of iterations that a name is answered with.
async fn iterations(directory: &Directory, name: &str) -> String {
    let mut exchange = Exchange::begin(directory, "SCRAM-SHA-256", plain_channel()).unwrap();
    match exchange.step(directory, Some(client(name, "").first().as_bytes())).await {
        SaslStep::Challenge(octets) => {
            String::from_utf8(octets).unwrap().split_once(",i=").unwrap().1.to_owned()
        }
        other => panic!("{other:?}"),
    }
}

/// A store from before the number of iterations was changed shows the earlier one, until a login
/// with the password. Names that do not exist show the configured one.
#[tokio::test]
async fn after_a_login_an_account_shows_as_many_iterations_as_an_unknown_name() {
    for earlier in [4097, 10_000] {
        let (records, _) = directory();
        let with = |iterations| {
            let policy = Policy { scram_iterations: Some(iterations), ..Policy::cheap_for_tests() };
            Directory::with_policy(Arc::clone(&records) as Arc<dyn posthaste_store::Engine>, policy).unwrap()
        };
        let (before, now) = (with(earlier), with(5000));
        add(&before, "ana@example.org", "pencil").await;
        add(&now, "ben@example.org", "pencil").await;
        assert_eq!(iterations(&now, "ana@example.org").await, earlier.to_string());
        // Neither a wrong password nor SCRAM itself has the password to make keys of.
        let wrong = b"\0ana@example.org\0pen";
        assert!(matches!(
            failure(run(&now, "PLAIN", plain_channel(), &[Some(wrong)]).await),
            LoginFailure::Credentials
        ));
        let ana = client("ana@example.org", "pencil");
        assert!(matches!(ana.log_in(&now, "SCRAM-SHA-256", plain_channel()).await, SaslStep::Done(_)));
        assert_eq!(iterations(&now, "ana@example.org").await, earlier.to_string());
        let right = b"\0ana@example.org\0pencil";
        assert!(matches!(run(&now, "PLAIN", plain_channel(), &[Some(right)]).await, SaslStep::Done(_)));
        for name in ["ana@example.org", "ben@example.org", "nobody@example.org"] {
            assert_eq!(iterations(&now, name).await, "5000", "{name}");
        }
        assert!(matches!(ana.log_in(&now, "SCRAM-SHA-256", plain_channel()).await, SaslStep::Done(_)));
    }
}

#[tokio::test]
async fn an_account_without_scram_keys_fails_like_an_unknown_name() {
    let (records, directory) = directory();
    add(&without_scram(records), "ana@example.org", "pencil").await;
    let end = client("ana@example.org", "pencil").log_in(&directory, "SCRAM-SHA-256", plain_channel()).await;
    assert!(matches!(failure(end), LoginFailure::Credentials));
}

#[tokio::test]
async fn scram_is_not_offered_where_no_keys_for_it_are_stored() {
    let (records, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    let without = without_scram(records);
    for channel in [plain_channel(), tls_channel()] {
        assert_eq!(names(&without, &channel), ["PLAIN", "LOGIN"]);
        // Not even for an account with keys.
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-1"] {
            let end = client("ana@example.org", "pencil").log_in(&without, mechanism, channel.clone()).await;
            assert!(matches!(failure(end), LoginFailure::UnknownMechanism), "{mechanism}");
        }
    }
}

#[tokio::test]
async fn malformed_scram_messages() {
    let (_, directory) = directory();
    add(&directory, "ana@example.org", "pencil").await;
    for first in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=ana",
        "n,,n=,r=x",
        "n,,n=ana,r=",
        "n,,m=x,n=ana,r=x",
        "n,b=x,n=ana,r=x",
        "x,,n=ana,r=x",
        "n,,n=a=2,r=x",
        "n,,n=a=2c,r=x",
        "n,,n=ana,r=\u{7f}",
        "n,,n=\0,r=x",
    ] {
        let end = run(&directory, "SCRAM-SHA-256", plain_channel(), &[Some(first.as_bytes())]).await;
        assert!(matches!(failure(end), LoginFailure::Malformed(_)), "{first:?}");
    }
    for last in
        ["", "c=biws", "c=biws,r=clientnonce", "c=biws,r=clientnonce,p=", "c=biws,r=clientnonce,p=AAAA"]
    {
        let first = client("ana@example.org", "").first();
        let responses = [Some(first.as_bytes()), Some(last.as_bytes())];
        let end = run(&directory, "SCRAM-SHA-256", plain_channel(), &responses).await;
        assert!(matches!(failure(end), LoginFailure::Malformed(_)), "{last:?}");
    }
    let zeros = STANDARD.encode([0; 32]);
    let last = format!("c=biws,r=clientnonce,p={zeros}");
    let first = client("ana@example.org", "").first();
    let responses = [Some(first.as_bytes()), Some(last.as_bytes())];
    let end = run(&directory, "SCRAM-SHA-256", plain_channel(), &responses).await;
    assert!(matches!(failure(end), LoginFailure::Malformed(why) if why.contains("nonce")));
}

fn names(directory: &Directory, channel: &Channel) -> Vec<&'static str> {
    mechanisms(directory, channel).names().collect()
}

#[test]
fn mechanisms_by_protocol_and_link() {
    let (_, directory) = directory();
    assert_eq!(names(&directory, &tls_channel()), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN", "LOGIN"]);
    assert_eq!(names(&directory, &plain_channel()), ["SCRAM-SHA-256", "PLAIN", "LOGIN"]);
    let open = channel(None, Plaintext::Refused);
    assert!(mechanisms(&directory, &open).is_empty());
    for name in names(&directory, &plain_channel()) {
        let refused = Exchange::begin(&directory, name, open.clone()).unwrap_err().failure;
        assert!(matches!(refused, LoginFailure::EncryptionRequired), "{name}: {refused}");
    }
    let scram_alone = Channel { scram: Plaintext::Allowed, ..open };
    assert_eq!(names(&directory, &scram_alone), ["SCRAM-SHA-256"]);
    assert!(Exchange::begin(&directory, "SCRAM-SHA-256", scram_alone.clone()).is_ok());
    assert!(Exchange::begin(&directory, "PLAIN", scram_alone).is_err());
    assert_eq!(names(&directory, &tls_1_2()), ["SCRAM-SHA-256", "PLAIN", "LOGIN"]);
    let unbound = channel(Some(TlsBindings::default()), Plaintext::Refused);
    assert_eq!(names(&directory, &unbound), ["SCRAM-SHA-256", "PLAIN", "LOGIN"]);
    for name in names(&directory, &tls_channel()) {
        assert!(Exchange::begin(&directory, name, tls_channel()).is_ok());
    }
}

properties! {
    /// Whatever a stranger sends, an exchange ends without a panic and without letting anyone in.
    #[test]
    fn garbage_is_refused(responses in prop::collection::vec("[nyp=,acrsv\0A-Z+/\u{e9}]{0,40}", 1..4), which in 0usize..4) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (_, directory) = directory();
        let mut exchange = Exchange::begin(&directory, names(&directory, &tls_channel())[which], tls_channel()).unwrap();
        for response in &responses {
            let step = runtime.block_on(exchange.step(&directory, Some(response.as_bytes())));
            prop_assert!(!matches!(step, SaslStep::Done(_)));
        }
    }
}
