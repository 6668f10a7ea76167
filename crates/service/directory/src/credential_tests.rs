//! Logins by app passwords, certificates and tokens.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use posthaste_mail_model::Secret;
use posthaste_net::ClientCertificate;
use posthaste_store::set_directory_entry;

use crate::lease::LeasesToCompare;
use crate::sasl::{Channel, Exchange, Mechanism, Plaintext, SaslStep, TlsBindings, mechanisms};
use crate::testing::{add, directory, other_process, secret};
use crate::{
    AccountChange, By, CertificateLogins, Client, Directory, DirectoryError, Granted, Login, LoginFailure,
    LoginSettings, NewAppPassword, OwnLimitChanges, QuotaRight, Service, TokenCheck, TokenError,
};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const ANA: &str = "ana@example.org";
const DISABLE: AccountChange = AccountChange {
    disabled: Some(true),
    quota_bytes: None,
    quota_messages: None,
    quota_mailboxes: None,
    folder_warn: None,
    folder_max: None,
    own_limits: OwnLimitChanges::NONE,
    command_limit: None,
    save_limit: None,
    format: None,
    keep_original: None,
    sets_quotas: None,
};

fn by(service: Service) -> Client {
    Client { address: PEER, service }
}

fn for_all(label: &str) -> NewAppPassword {
    NewAppPassword { label: label.into(), services: Vec::new(), expires: None }
}

async fn password_login(
    directory: &Directory,
    password: &str,
    service: Service,
) -> Result<Login, LoginFailure> {
    directory.login(ANA, &secret(password), by(service)).await.map_err(|error| error.failure)
}

#[tokio::test]
async fn an_app_password_lets_in_beside_the_accounts_own() {
    let (records, directory) = directory();
    let account = add(&directory, ANA, "pencil").await;
    let (made, text) = directory.app_passwords().add(ANA, for_all("phone")).await.unwrap();
    let text = text.expose().clone();
    assert_eq!((text.len(), text.matches('-').count()), (29, 5), "{text}");
    assert!(!records.dump().contains(&text) && !records.dump().contains(&text.replace('-', "")));
    for typed in [text.clone(), text.replace('-', ""), text.replace('-', " ").to_uppercase()] {
        let login = password_login(&directory, &typed, Service::Pop3).await.unwrap();
        assert_eq!((login.by, login.account.name.as_str()), (By::AppPassword(made.id), ANA));
    }
    assert!(
        password_login(&directory, "pencil", Service::Imap).await.is_ok_and(|login| login.by == By::Password)
    );
    let changed = text.replace(text.chars().next().unwrap(), "z");
    assert!(changed == text || password_login(&directory, &changed, Service::Imap).await.is_err());
    // An app password of one account is not valid for another.
    add(&directory, "ben@example.org", "pencil").await;
    assert!(directory.login("ben@example.org", &secret(&text), by(Service::Imap)).await.is_err());
    // A new password of the account leaves it.
    directory.set_password(ANA, &secret("pen")).await.unwrap();
    assert!(password_login(&directory, &text, Service::Imap).await.is_ok());
    assert!(directory.app_passwords().last_use(&account, made.id).await.unwrap().is_some());
    directory.set(ANA, DISABLE).await.unwrap();
    assert!(matches!(password_login(&directory, &text, Service::Imap).await, Err(LoginFailure::Disabled)));
    directory.remove(ANA).await.unwrap();
    assert!(!records.dump().contains("used/"), "{}", records.dump());
}

#[tokio::test]
async fn an_app_password_has_its_protocols_and_its_time() {
    let (_, directory) = directory();
    add(&directory, ANA, "pencil").await;
    let scoped = NewAppPassword { services: vec![Service::Submission], ..for_all("printer") };
    let (_, printer) = directory.app_passwords().add(ANA, scoped).await.unwrap();
    let old = NewAppPassword { expires: Some(1), ..for_all("old") };
    let (_, old) = directory.app_passwords().add(ANA, old).await.unwrap();
    assert!(password_login(&directory, printer.expose(), Service::Submission).await.is_ok());
    for service in [Service::Imap, Service::Pop3, Service::Sieve] {
        let refused = password_login(&directory, printer.expose(), service).await.unwrap_err();
        assert!(matches!(refused, LoginFailure::Scope), "{refused}");
    }
    let refused = password_login(&directory, old.expose(), Service::Imap).await.unwrap_err();
    assert!(matches!(refused, LoginFailure::Expired), "{refused}");
}

#[tokio::test]
async fn labels_are_unique_and_their_number_has_a_bound() {
    let (_, directory) = directory();
    add(&directory, ANA, "pencil").await;
    let (made, _) = directory.app_passwords().add(ANA, for_all("phone")).await.unwrap();
    let again = directory.app_passwords().add(ANA, for_all("phone")).await.unwrap_err();
    assert!(matches!(again, DirectoryError::LabelTaken(_)), "{again}");
    for bad in ["", "a\nb", &"x".repeat(65)] {
        assert!(matches!(directory.app_passwords().add(ANA, for_all(bad)).await, Err(DirectoryError::Label)));
    }
    for n in 1..32 {
        directory.app_passwords().add(ANA, for_all(&format!("n{n}"))).await.unwrap();
    }
    let many = directory.app_passwords().add(ANA, for_all("one more")).await.unwrap_err();
    assert!(matches!(many, DirectoryError::TooManyAppPasswords), "{many}");
    directory.app_passwords().remove(ANA, &made.id.to_string()).await.unwrap();
    let missing = directory.app_passwords().remove(ANA, "phone").await.unwrap_err();
    assert!(missing.to_string().contains("'phone'"), "{missing}");
    assert_eq!(directory.app_passwords().of(ANA).await.unwrap().len(), 31);
}

#[tokio::test]
async fn a_removed_credential_ends_its_sessions_and_no_others() {
    let (records, directory) = directory();
    add(&directory, ANA, "pencil").await;
    let (_, phone) = directory.app_passwords().add(ANA, for_all("phone")).await.unwrap();
    let (_, desk) = directory.app_passwords().add(ANA, for_all("desk")).await.unwrap();
    directory.set_logins(certificates(CertificateLogins::Email));
    let mut leases = Vec::new();
    for password in [phone.expose().as_str(), desk.expose(), "pencil"] {
        leases.push(directory.lease(&password_login(&directory, password, Service::Imap).await.unwrap()));
    }
    leases.push(directory.lease(&external(&directory, &shown(&[ANA], 1), "").await.unwrap()));
    let ended = async |expected: [bool; 4]| {
        directory.leases.compare(LeasesToCompare::All).await.unwrap();
        assert_eq!([0, 1, 2, 3].map(|n| leases[n].is_ended()), expected);
    };
    ended([false; 4]).await;
    let other = other_process(&records);
    other.app_passwords().remove(ANA, "phone").await.unwrap();
    ended([true, false, false, false]).await;
    assert!(password_login(&directory, phone.expose(), Service::Imap).await.is_err());
    // Once a certificate is listed, no other one counts.
    other.certificates().add(ANA, [2; 32]).await.unwrap();
    ended([true, false, false, true]).await;
    other.set_password(ANA, &secret("pen")).await.unwrap();
    ended([true, false, true, true]).await;
    other.set(ANA, DISABLE).await.unwrap();
    ended([true; 4]).await;
}

#[tokio::test]
async fn a_lease_ends_with_its_time() {
    let (_, directory) = directory();
    let account = add(&directory, ANA, "pencil").await;
    let login = |until| Login { until, ..Login::new(Arc::new(account.clone()), By::Token) };
    let (over, later) = (directory.lease(&login(Some(1))), directory.lease(&login(Some(u64::MAX))));
    directory.leases.compare(LeasesToCompare::All).await.unwrap();
    assert!(over.is_ended() && !later.is_ended());
    // Nothing changed since: only its expiry ends it.
    let late = directory.lease(&login(Some(2)));
    directory.leases.compare(LeasesToCompare::New).await.unwrap();
    assert!(late.is_ended() && !later.is_ended());
}

#[tokio::test]
async fn an_account_takes_its_app_passwords_and_certificates_along() {
    let (_, from) = directory();
    let (_, to) = directory();
    add(&from, ANA, "pencil").await;
    let (_, phone) = from.app_passwords().add(ANA, for_all("phone")).await.unwrap();
    from.certificates().add(ANA, [7; 32]).await.unwrap();
    let id = posthaste_mail_model::AccountId(posthaste_mail_model::Id::new(5, 6));
    to.adopt((&from, ANA), "ana2@example.org", id, QuotaRight::Keep).await.unwrap();
    to.set_logins(certificates(CertificateLogins::Listed));
    assert!(to.login("ana2@example.org", &secret(phone.expose()), by(Service::Imap)).await.is_ok());
    let certificate = ClientCertificate { fingerprint: [7; 32], ..shown(&[], 7) };
    assert_eq!(external(&to, &certificate, "").await.unwrap().account.name, "ana2@example.org");
}

/// Unlike the account that lists it, a copy under another name gets everything but the
/// certificate.
#[tokio::test]
async fn a_copy_takes_no_certificate_from_the_account_that_lists_it() {
    let (_, from) = directory();
    let (_, to) = directory();
    for at in [&from, &to] {
        add(at, ANA, "pencil").await;
        at.certificates().add(ANA, [7; 32]).await.unwrap();
    }
    from.certificates().add(ANA, [8; 32]).await.unwrap();
    let id = posthaste_mail_model::AccountId(posthaste_mail_model::Id::new(5, 6));
    to.adopt((&from, ANA), "ana2@example.org", id, QuotaRight::Keep).await.unwrap();
    assert_eq!(to.certificates().of("ana2@example.org").await.unwrap(), [[8; 32]]);
    to.set_logins(certificates(CertificateLogins::Listed));
    for (number, owner) in [(7, ANA), (8, "ana2@example.org")] {
        assert_eq!(external(&to, &shown(&[], number), "").await.unwrap().account.name, owner);
    }
    to.remove("ana2@example.org").await.unwrap();
    assert_eq!(external(&to, &shown(&[], 7), "").await.unwrap().account.name, ANA);
}

/// As `copy-store` and `backup` do: the certificates first, then the account's record.
#[tokio::test]
async fn certificates_follow_an_account_to_another_store() {
    let (_, from) = directory();
    let (engine, to) = directory();
    add(&from, ANA, "pencil").await;
    from.certificates().add(ANA, [7; 32]).await.unwrap();
    to.set_logins(certificates(CertificateLogins::Listed));
    let copy = async || {
        to.certificates().mirror(from.certificates(), ANA).await.unwrap();
        let record = from.records.entry("account/ana@example.org").await.unwrap().unwrap();
        set_directory_entry(&*engine, &record.name, Some(record.value)).await.unwrap();
        assert!(to.certificates().has_all_in(from.certificates(), ANA).await.unwrap());
    };
    copy().await;
    assert_eq!(external(&to, &shown(&[], 7), "").await.unwrap().account.name, ANA);
    from.certificates().remove(ANA, [7; 32]).await.unwrap();
    from.certificates().add(ANA, [9; 32]).await.unwrap();
    assert!(!to.certificates().has_all_in(from.certificates(), ANA).await.unwrap());
    copy().await;
    external(&to, &shown(&[], 7), "").await.unwrap_err();
    assert_eq!(external(&to, &shown(&[], 9), "").await.unwrap().account.name, ANA);
}

/// A valid certificate.
fn shown(emails: &[&str], number: u8) -> ClientCertificate {
    ClientCertificate {
        fingerprint: [number; 32],
        emails: emails.iter().map(|email| (*email).to_owned()).collect(),
        common_name: Some("ben@example.org".into()),
        ends: Some(SystemTime::now() + Duration::from_secs(3600)),
    }
}

fn certificates(mode: CertificateLogins) -> LoginSettings {
    LoginSettings { certificates: mode, tokens: None }
}

fn channel(certificate: Option<ClientCertificate>) -> Channel {
    let tls = Some(TlsBindings { exporter: Some(vec![1; 32]), server_end_point: None });
    let (plaintext, scram) = (Plaintext::Refused, Plaintext::Refused);
    Channel { client: by(Service::Imap), tls, certificate, plaintext, scram }
}

/// One response; `Ok` or what failed.
async fn respond(
    directory: &Directory,
    mechanism: &str,
    channel: Channel,
    response: &[u8],
) -> Result<Login, (LoginFailure, Option<String>)> {
    let exchange = Exchange::begin(directory, mechanism, channel);
    let mut exchange = exchange.map_err(|error| (error.failure, None))?;
    match exchange.step(directory, Some(response)).await {
        SaslStep::Done(login) => Ok(*login),
        SaslStep::Fail(error) => Err((error.failure, None)),
        SaslStep::Refuse { challenge, error } => {
            Err((error.failure, Some(String::from_utf8(challenge).unwrap())))
        }
        SaslStep::Challenge(octets) => panic!("{octets:?}"),
    }
}

async fn external(
    directory: &Directory,
    certificate: &ClientCertificate,
    authorization: &str,
) -> Result<Login, LoginFailure> {
    let outcome =
        respond(directory, "EXTERNAL", channel(Some(certificate.clone())), authorization.as_bytes()).await;
    outcome.map_err(|(failure, _)| failure)
}

#[tokio::test]
async fn external_is_offered_with_a_good_certificate_alone() {
    let (_, directory) = directory();
    let offers = |directory: &Directory, certificate| {
        mechanisms(directory, &channel(certificate)).has(Mechanism::External)
    };
    let good = || Some(shown(&[ANA], 1));
    assert!(!offers(&directory, good()));
    let off = external(&directory, &good().unwrap(), "").await.unwrap_err();
    assert!(matches!(off, LoginFailure::UnknownMechanism));
    directory.set_logins(certificates(CertificateLogins::Email));
    assert!(offers(&directory, good()) && !offers(&directory, None));
    // A resumed session may have an expired one.
    let ended = ClientCertificate { ends: Some(SystemTime::UNIX_EPOCH), ..good().unwrap() };
    assert!(!offers(&directory, Some(ended.clone())));
    assert!(external(&directory, &ended, "").await.is_err());
}

#[tokio::test]
async fn a_certificate_authenticates_only_the_account_it_names() {
    let (_, directory) = directory();
    directory.set_logins(certificates(CertificateLogins::Email));
    add(&directory, ANA, "pencil").await;
    add(&directory, "ben@example.org", "pencil").await;
    let name = async |certificate: &ClientCertificate, authorization: &str| {
        external(&directory, certificate, authorization).await.map(|login| login.account.name.clone())
    };
    let hers = shown(&["ANA@example.org"], 1);
    for authorization in ["", ANA, "Ana@Example.ORG"] {
        assert_eq!(name(&hers, authorization).await.unwrap(), ANA, "{authorization}");
    }
    for other in ["ben@example.org", "nobody@example.org", "a b"] {
        let refused = name(&hers, other).await.unwrap_err();
        assert!(matches!(refused, LoginFailure::AuthorizationId), "{other}: {refused}");
    }
    let both = shown(&["nobody@example.org", "ben@example.org", ANA], 2);
    assert_eq!(name(&both, "").await.unwrap(), "ben@example.org");
    assert_eq!(name(&both, ANA).await.unwrap(), ANA);
    for stranger in [shown(&[], 3), shown(&["nobody@example.org", "a b"], 4)] {
        assert!(matches!(name(&stranger, "").await.unwrap_err(), LoginFailure::Certificate));
        assert!(matches!(name(&stranger, ANA).await.unwrap_err(), LoginFailure::Certificate));
    }
    for garbage in [&b"\xff"[..], b"ana@example.org\0"] {
        let outcome = respond(&directory, "EXTERNAL", channel(Some(hers.clone())), garbage).await;
        assert!(matches!(outcome, Err((LoginFailure::Malformed(_), None))), "{outcome:?}");
    }
    directory.set_logins(certificates(CertificateLogins::CommonName));
    assert_eq!(name(&hers, "").await.unwrap(), "ben@example.org");
    directory.set_logins(certificates(CertificateLogins::Email));
    directory.set(ANA, DISABLE).await.unwrap();
    assert!(matches!(name(&hers, "").await.unwrap_err(), LoginFailure::Disabled));
}

/// As a session that began with a token does: `a_lease_ends_with_its_time`.
#[tokio::test]
async fn a_session_ends_with_the_certificate_that_it_began_with() {
    let (_, directory) = directory();
    directory.set_logins(certificates(CertificateLogins::Email));
    add(&directory, ANA, "pencil").await;
    directory.certificates().add(ANA, [9; 32]).await.unwrap();
    add(&directory, "ben@example.org", "pencil").await;
    let ends = crate::unix_time::now() + 3600;
    for (emails, number) in [(&[][..], 9), (&["ben@example.org"], 1)] {
        let ends_at = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(ends));
        let certificate = ClientCertificate { ends: ends_at, ..shown(emails, number) };
        assert_eq!(external(&directory, &certificate, "").await.unwrap().until, Some(ends), "{number}");
    }
}

/// KELVIN SIGN: the authority, or the issuer of tokens, may know two people where we know one.
#[tokio::test]
async fn a_name_that_is_asserted_is_folded_in_ascii_alone() {
    let (_, directory) = directory();
    directory
        .set_logins(LoginSettings { certificates: CertificateLogins::Email, tokens: Some(Arc::new(Words)) });
    add(&directory, "kim@example.org", "pencil").await;
    let other = "\u{212a}im";
    let named = shown(&[&format!("{other}@example.org")], 1);
    assert!(matches!(external(&directory, &named, "").await.unwrap_err(), LoginFailure::Certificate));
    assert!(external(&directory, &shown(&["Kim@Example.org"], 2), "").await.is_ok());
    let by_token = async |name: &str, token: &str| {
        let (_, outcome) = directory.login_by_token(name, Some(secret(token)), by(Service::Imap)).await;
        outcome.map_err(|error| error.failure)
    };
    assert!(by_token("", "Kim").await.is_ok());
    for name in ["", "kim@example.org"] {
        assert!(matches!(by_token(name, other).await.unwrap_err(), LoginFailure::Token(_)), "{name}");
    }
    // A client writes its own name as it likes.
    assert!(by_token(&format!("{other}@example.org"), "kim").await.is_ok());
}

#[tokio::test]
async fn an_account_that_lists_certificates_takes_these_alone() {
    let (records, directory) = directory();
    directory.set_logins(certificates(CertificateLogins::Email));
    add(&directory, ANA, "pencil").await;
    add(&directory, "ben@example.org", "pencil").await;
    directory.certificates().add(ANA, [9; 32]).await.unwrap();
    // It names nobody, and belongs to her.
    let listed = shown(&[], 9);
    let login = external(&directory, &listed, "").await.unwrap();
    assert_eq!((login.account.name.as_str(), login.by), (ANA, By::ListedCertificate([9; 32])));
    assert!(matches!(
        external(&directory, &shown(&[ANA], 1), "").await.unwrap_err(),
        LoginFailure::Certificate
    ));
    let taken = directory.certificates().add("ben@example.org", [9; 32]).await.unwrap_err();
    assert!(taken.to_string().contains("'ana@example.org'"), "{taken}");
    directory.set_logins(certificates(CertificateLogins::Listed));
    assert!(external(&directory, &listed, "").await.is_ok());
    // Without a list an account takes none then.
    assert!(external(&directory, &shown(&["ben@example.org"], 1), "").await.is_err());
    let lease = directory.lease(&login);
    directory.certificates().remove(ANA, [9; 32]).await.unwrap();
    directory.leases.compare(LeasesToCompare::All).await.unwrap();
    assert!(lease.is_ended());
    assert!(external(&directory, &listed, "").await.is_err());
    assert!(!records.dump().contains("certificate/"), "{}", records.dump());
    directory.certificates().add("ben@example.org", [9; 32]).await.unwrap();
    directory.remove("ben@example.org").await.unwrap();
    assert!(!records.dump().contains("certificate/"));
}

#[tokio::test]
async fn certificates_that_are_refused_are_throttled() {
    let (_, directory) = directory();
    directory.set_logins(certificates(CertificateLogins::Email));
    add(&directory, ANA, "pencil").await;
    let stranger = shown(&["nobody@example.org"], 1);
    for _ in 0..64 {
        assert!(matches!(external(&directory, &stranger, "").await.unwrap_err(), LoginFailure::Certificate));
    }
    assert!(matches!(external(&directory, &stranger, "").await.unwrap_err(), LoginFailure::TooMany));
    assert!(matches!(external(&directory, &shown(&[ANA], 2), "").await.unwrap_err(), LoginFailure::TooMany));
}

/// On loopback failures of one do not cause refusals for others.
#[tokio::test]
async fn a_certificate_that_names_nobody_is_throttled_by_itself() {
    let (_, directory) = directory();
    directory.set_logins(certificates(CertificateLogins::Listed));
    add(&directory, ANA, "pencil").await;
    directory.certificates().add(ANA, [9; 32]).await.unwrap();
    let here = Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), service: Service::Imap };
    let (stranger, hers) = (shown(&[], 1), shown(&[], 9));
    for _ in 0..140 {
        directory.login_by_certificate(&stranger, "", here).await.unwrap_err();
    }
    let refused = directory.login_by_certificate(&stranger, "", here).await.unwrap_err();
    assert!(matches!(refused.failure, LoginFailure::TooMany), "{refused}");
    assert_eq!(directory.login_by_certificate(&hers, "", here).await.unwrap().account.name, ANA);
}

/// Tokens are what they say: `name`, `expired`, `scope`, `down`.
struct Words;

#[async_trait]
impl TokenCheck for Words {
    async fn check(&self, token: &Secret<String>) -> Result<Granted, TokenError> {
        match token.expose().as_str() {
            "expired" => Err(TokenError::Expired),
            "scope" => Err(TokenError::Scope),
            "down" => Err(TokenError::Unavailable("no answer".into())),
            "forged" => Err(TokenError::Invalid("the signature of the token is wrong")),
            name => Ok(Granted { name: format!("{name}@example.org"), until: Some(u64::MAX) }),
        }
    }

    fn scope(&self) -> &str {
        "mail"
    }

    fn discovery(&self) -> Option<&str> {
        Some("https://id.example/.well-known/openid-configuration")
    }
}

fn with_tokens() -> Directory {
    let (_, directory) = directory();
    directory
        .set_logins(LoginSettings { certificates: CertificateLogins::Off, tokens: Some(Arc::new(Words)) });
    directory
}

#[tokio::test]
async fn tokens_are_offered_where_they_are_checked_and_protected() {
    let directory = with_tokens();
    let names = |directory: &Directory, channel: &Channel| mechanisms(directory, channel).to_string();
    assert_eq!(
        names(&directory, &channel(None)),
        "SCRAM-SHA-256-PLUS SCRAM-SHA-256 OAUTHBEARER XOAUTH2 PLAIN LOGIN"
    );
    let in_clear = Channel { tls: None, ..channel(None) };
    assert_eq!(names(&directory, &in_clear), "");
    let refused = Exchange::begin(&directory, "OAUTHBEARER", in_clear).unwrap_err().failure;
    assert!(matches!(refused, LoginFailure::EncryptionRequired));
    directory.set_logins(LoginSettings::default());
    let refused = Exchange::begin(&directory, "XOAUTH2", channel(None)).unwrap_err().failure;
    assert!(matches!(refused, LoginFailure::UnknownMechanism));
}

#[tokio::test]
async fn tokens_admit_their_accounts_and_programs_get_the_reason_of_a_refusal() {
    let directory = with_tokens();
    add(&directory, ANA, "pencil").await;
    add(&directory, "ben@example.org", "pencil").await;
    let ask = async |mechanism: &str, text: &str| {
        respond(&directory, mechanism, channel(None), text.as_bytes()).await
    };
    for (mechanism, text) in [
        ("OAUTHBEARER", "n,,\x01auth=Bearer ana\x01\x01"),
        ("OAUTHBEARER", "n,a=Ana@Example.org,\x01host=x\x01port=993\x01auth=Bearer ana\x01\x01"),
        ("XOAUTH2", "user=ana@example.org\x01auth=Bearer ana\x01\x01"),
    ] {
        let login = ask(mechanism, text).await.unwrap();
        assert_eq!((login.by, login.until, login.account.name.as_str()), (By::Token, Some(u64::MAX), ANA));
    }
    let invalid = r#"{"status":"invalid_token","scope":"mail","openid-configuration":"https://id.example/.well-known/openid-configuration"}"#;
    let scope = invalid.replace("invalid_token", "insufficient_scope");
    for (text, reason, expected) in [
        ("n,,\x01auth=Bearer forged\x01\x01", "token", Some(invalid)),
        ("n,,\x01auth=\x01\x01", "no-token", Some(invalid)),
        ("n,,\x01auth=Bearer expired\x01\x01", "expired", Some(invalid)),
        ("n,,\x01auth=Bearer nobody\x01\x01", "token", Some(invalid)),
        ("n,a=ben@example.org,\x01auth=Bearer ana\x01\x01", "authorization", Some(invalid)),
        ("n,,\x01auth=Bearer scope\x01\x01", "scope", Some(&scope)),
        ("n,,\x01auth=Bearer down\x01\x01", "unavailable", None),
        ("n,,\x01auth=Basic x\x01\x01", "malformed", None),
    ] {
        let (failure, challenge) = ask("OAUTHBEARER", text).await.unwrap_err();
        assert_eq!((failure.reason(), challenge.as_deref()), (reason, expected), "{text:?}");
    }
    let (_, challenge) =
        ask("XOAUTH2", "user=ana@example.org\x01auth=Bearer forged\x01\x01").await.unwrap_err();
    assert_eq!(challenge.as_deref(), Some(r#"{"status":"400","schemes":"Bearer","scope":"mail"}"#));
    directory.set(ANA, DISABLE).await.unwrap();
    let (failure, challenge) = ask("OAUTHBEARER", "n,,\x01auth=Bearer ana\x01\x01").await.unwrap_err();
    assert!(matches!(failure, LoginFailure::Disabled) && challenge.is_some());
}

#[tokio::test]
async fn forged_tokens_are_throttled_and_old_ones_are_not() {
    let directory = with_tokens();
    add(&directory, ANA, "pencil").await;
    let ask = async |text: &str| respond(&directory, "OAUTHBEARER", channel(None), text.as_bytes()).await;
    for _ in 0..200 {
        let (failure, _) = ask("n,,\x01auth=Bearer expired\x01\x01").await.unwrap_err();
        assert!(matches!(failure, LoginFailure::Expired));
    }
    for _ in 0..64 {
        let (failure, _) = ask("n,a=ana@example.org,\x01auth=Bearer forged\x01\x01").await.unwrap_err();
        assert!(matches!(failure, LoginFailure::Token(_)));
    }
    // It is not read, although it is valid.
    let (failure, _) = ask("n,,\x01auth=Bearer ana\x01\x01").await.unwrap_err();
    assert!(matches!(failure, LoginFailure::TooMany));
}

/// Checks tokens as [`Words`] does, and counts the checks.
#[derive(Default)]
struct CountedWords(AtomicUsize);

#[async_trait]
impl TokenCheck for CountedWords {
    async fn check(&self, token: &Secret<String>) -> Result<Granted, TokenError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Words.check(token).await
    }

    fn scope(&self) -> &str {
        "mail"
    }

    fn discovery(&self) -> Option<&str> {
        None
    }
}

#[tokio::test]
async fn failures_of_the_authorization_server_bound_its_requests_and_lock_nobody_out() {
    let (_, directory) = directory();
    let words = Arc::new(CountedWords::default());
    let tokens: Arc<dyn TokenCheck> = Arc::<CountedWords>::clone(&words);
    directory.set_logins(LoginSettings { certificates: CertificateLogins::Off, tokens: Some(tokens) });
    for name in [ANA, "ben@example.org"] {
        add(&directory, name, "pencil").await;
    }
    let ask = async |host: u8, name: &str, token: &str| {
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
        let channel = Channel { client: Client { address, service: Service::Imap }, ..channel(None) };
        let text = format!("n,a={name},\x01auth=Bearer {token}\x01\x01");
        respond(&directory, "OAUTHBEARER", channel, text.as_bytes()).await
    };
    assert!(ask(1, ANA, "ana").await.is_ok());
    for n in 0..1000 {
        let (failure, _) = ask(1, &format!("u{n}@example.org"), "down").await.unwrap_err();
        assert_eq!(failure.reason(), "unavailable", "{failure}");
    }
    // Sixty-four, and some more if this takes minutes.
    let checks = words.0.load(Ordering::Relaxed) - 1;
    assert!((64..200).contains(&checks), "{checks}");
    // Neither passwords from there are refused, nor a known account, nor other addresses.
    let password = secret("pencil");
    assert!(directory.login("ben@example.org", &password, by(Service::Imap)).await.is_ok());
    assert!(ask(1, ANA, "ana").await.is_ok());
    assert!(ask(2, "ben@example.org", "ben").await.is_ok());
}
