//! Tokens signed here, keys and answers from a web server on loopback.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthaste_directory::{Granted, TokenCheck, TokenError};
use posthaste_mail_model::Secret;
use posthaste_testkit::HttpServer;
use posthaste_tokens::algorithm::Algorithm;
use posthaste_tokens::claims::RequiredClaims;
use posthaste_tokens::http::Http;
use posthaste_tokens::introspection::Introspection;
use posthaste_tokens::keys::{KeySource, KeyStore, READ_AGAIN_AFTER};
use posthaste_tokens::{Judge, SessionEnd, Tokens, WITHOUT_EXPIRY_SECONDS};

const ALL: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

fn encoded(octets: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(octets)
}

/// An authorization server's key.
enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn jwk(&self, id: &str) -> String {
        match self {
            Self::Rsa(pair) => {
                let public = pair.public_key();
                let n = encoded(public.modulus().big_endian_without_leading_zero());
                let e = encoded(public.exponent().big_endian_without_leading_zero());
                format!(r#"{{"kty":"RSA","kid":"{id}","use":"sig","n":"{n}","e":"{e}"}}"#)
            }
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
                format!(r#"{{"kty":"EC","crv":"P-256","kid":"{id}","x":"{x}","y":"{y}"}}"#)
            }
            Self::Ed25519(pair) => {
                let x = encoded(pair.public_key().as_ref());
                format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{x}"}}"#)
            }
        }
    }

    fn sign_parts(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Rsa(pair) => {
                let mut out = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut out).unwrap();
                out
            }
            Self::P256(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(signature))
    }

    fn sign(&self, id: &str, claims: &str) -> String {
        self.sign_parts(&format!(r#"{{"alg":"{}","kid":"{id}","typ":"at+jwt"}}"#, self.algorithm()), claims)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims(expires: u64) -> String {
    format!(
        r#"{{"iss":"https://id.example","aud":"mail","scope":"mail","email":"ana@example.org","exp":{expires}}}"#
    )
}

fn wanted() -> RequiredClaims {
    RequiredClaims {
        issuer: "https://id.example".into(),
        audiences: vec!["mail".into()],
        scope: "mail".into(),
        claim: "email".into(),
        leeway: Duration::from_secs(60),
    }
}

fn checking(judge: Judge) -> Tokens {
    Tokens::new(judge, wanted(), "example.org".into(), SessionEnd::WithToken)
}

fn by_keys(source: KeySource, again: Duration) -> Tokens {
    checking(Judge::Keys { keys: KeyStore::new(source, again), algorithms: ALL.to_vec() })
}

fn http() -> Arc<Http> {
    Arc::new(Http::new(None, Duration::from_secs(30)).unwrap())
}

async fn check(tokens: &Tokens, token: &str) -> Result<Granted, TokenError> {
    tokens.check(&Secret::new(token.to_owned())).await
}

fn invalid(outcome: Result<Granted, TokenError>) -> &'static str {
    match outcome {
        Err(TokenError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn set_file(dir: &Path, keys: &[String]) -> KeySource {
    let file = dir.join("keys.json");
    std::fs::write(&file, format!(r#"{{"keys":[{}]}}"#, keys.join(","))).unwrap();
    KeySource::File(file)
}

#[tokio::test]
async fn tokens_signed_by_each_algorithm_are_read_and_forged_ones_are_not() {
    let dir = tempdir();
    let signers = [Signer::rsa(), Signer::p256(), Signer::ed25519()];
    let keys: Vec<String> = signers.iter().enumerate().map(|(n, one)| one.jwk(&format!("k{n}"))).collect();
    let tokens = by_keys(set_file(&dir, &keys), READ_AGAIN_AFTER);
    let expires = now() + 600;
    for (n, signer) in signers.iter().enumerate() {
        let id = format!("k{n}");
        let good = signer.sign(&id, &claims(expires));
        let granted = Granted { name: "ana@example.org".into(), until: Some(expires + 60) };
        assert_eq!(check(&tokens, &good).await, Ok(granted));
        // Another claim under the same signature.
        let (header, rest) = good.split_once('.').unwrap();
        let signature = rest.split_once('.').unwrap().1;
        let other = encoded(claims(expires).replace("ana@", "ben@"));
        let forged = format!("{header}.{other}.{signature}");
        assert!(invalid(check(&tokens, &forged).await).contains("signature"));
        // Signed by a stranger with the same key id.
        for stranger in [Signer::rsa(), Signer::p256(), Signer::ed25519()] {
            let said = invalid(check(&tokens, &stranger.sign(&id, &claims(expires))).await);
            assert!(said.contains("signature") || said.contains("not known"), "{said}");
        }
        // Without a key id all keys of the kind are tried.
        let unnamed = signer.sign_parts(&format!(r#"{{"alg":"{}"}}"#, signer.algorithm()), &claims(expires));
        assert!(check(&tokens, &unnamed).await.is_ok());
        let crit = format!(r#"{{"alg":"{}","kid":"{id}","crit":["b64"],"b64":false}}"#, signer.algorithm());
        assert!(
            invalid(check(&tokens, &signer.sign_parts(&crit, &claims(expires))).await).contains("extension")
        );
        assert_eq!(check(&tokens, &signer.sign(&id, &claims(now() - 61))).await, Err(TokenError::Expired));
        let scope = claims(expires).replace("\"scope\":\"mail\"", "\"scope\":\"other\"");
        assert_eq!(check(&tokens, &signer.sign(&id, &scope)).await, Err(TokenError::Scope));
    }
    // RFC 8725 §2.1: no algorithm, and a public key taken for a shared secret.
    for algorithm in ["none", "None", "HS256", "RS512", ""] {
        let header = encoded(format!(r#"{{"alg":"{algorithm}","kid":"k0"}}"#));
        for signature in ["", "AAAA"] {
            let token = format!("{header}.{}.{signature}", encoded(claims(expires)));
            assert!(invalid(check(&tokens, &token).await).contains("not allowed"), "{algorithm}");
        }
    }
    for shape in ["", "a", "a.b", "a.b.c", "....", "e30.e30.AA", "\u{e9}.e30.AA"] {
        assert!(!invalid(check(&tokens, shape).await).is_empty());
    }
}

/// RFC 9068 §2.2, §4; RFC 8725 §3.11.
#[tokio::test]
async fn only_access_tokens_that_end_let_in() {
    let (dir, signer) = (tempdir(), Signer::ed25519());
    let tokens = by_keys(set_file(&dir, &[signer.jwk("k")]), READ_AGAIN_AFTER);
    let expires = now() + 600;
    let good = claims(expires);
    for without in [good.replace("\"exp\"", "\"x\""), good.replace(&expires.to_string(), "null")] {
        assert_ne!(without, good);
        let said = invalid(check(&tokens, &signer.sign("k", &without)).await);
        assert!(said.contains("no time at which it expires"), "{said}");
    }
    let of_type = |typ: &str| signer.sign_parts(&format!(r#"{{"alg":"EdDSA","kid":"k"{typ}}}"#), &good);
    for typ in
        ["", r#","typ":null"#, r#","typ":"at+jwt""#, r#","typ":"application/at+JWT""#, r#","typ":"JWT""#]
    {
        assert!(check(&tokens, &of_type(typ)).await.is_ok(), "{typ}");
    }
    for typ in ["logout+jwt", "application/logout+jwt", "secevent+jwt", "dpop+jwt", "id_token+jwt", "", "JWE"]
    {
        let said = invalid(check(&tokens, &of_type(&format!(r#","typ":"{typ}""#))).await);
        assert!(said.contains("another type"), "{typ}: {said}");
    }
    assert!(!invalid(check(&tokens, &of_type(r#","typ":7"#)).await).is_empty());
}

#[tokio::test]
async fn tokens_name_accounts_of_the_domains_that_they_may() {
    let (dir, signer) = (tempdir(), Signer::ed25519());
    let named = |name: &str| signer.sign("k", &claims(now() + 600).replace("ana@example.org", name));
    let tokens = by_keys(set_file(&dir, &[signer.jwk("k")]), READ_AGAIN_AFTER)
        .for_domains(vec!["example.org".into(), "xn--bcher-kva.example".into()]);
    for name in ["ana@example.org", "Ana@EXAMPLE.org", "ana@b\u{fc}cher.example", "ana"] {
        assert!(check(&tokens, &named(name)).await.is_ok(), "{name}");
    }
    for name in ["ana@example.net", "ana@sub.example.org", "ana@", "ana@example.org@example.net"] {
        assert!(invalid(check(&tokens, &named(name)).await).contains("may not name"), "{name}");
    }
}

#[tokio::test]
async fn an_algorithm_that_is_not_allowed_lets_nobody_in() {
    let (dir, signer) = (tempdir(), Signer::ed25519());
    let keys = KeyStore::new(set_file(&dir, &[signer.jwk("k")]), READ_AGAIN_AFTER);
    let tokens = checking(Judge::Keys { keys, algorithms: vec![Algorithm::Rs256] });
    assert!(invalid(check(&tokens, &signer.sign("k", &claims(now() + 60))).await).contains("not allowed"));
}

fn token(signer: &Signer, id: &str) -> String {
    signer.sign(id, &claims(now() + 600))
}

#[tokio::test]
async fn a_new_key_is_fetched_and_strangers_cause_no_flood() {
    let (old, new) = (Signer::ed25519(), Signer::ed25519());
    let set = Arc::new(Mutex::new(format!(r#"{{"keys":[{}]}}"#, old.jwk("old"))));
    let served = Arc::clone(&set);
    let server = HttpServer::start(move |_| (200, served.lock().unwrap().clone()));
    let source = || KeySource::Url(server.url("/jwks").parse().unwrap(), http());
    let (eager, usual) = (by_keys(source(), Duration::ZERO), by_keys(source(), READ_AGAIN_AFTER));
    for tokens in [&eager, &usual] {
        assert!(check(tokens, &token(&old, "old")).await.is_ok());
        assert!(check(tokens, &token(&old, "old")).await.is_ok());
    }
    assert_eq!(server.requests().len(), 2);
    // Keys that nobody has: the set is not read again within the minute.
    for n in 0..20 {
        assert!(invalid(check(&usual, &token(&new, &format!("x{n}"))).await).contains("not known"));
    }
    assert_eq!(server.requests().len(), 2);
    *set.lock().unwrap() = format!(r#"{{"keys":[{}]}}"#, new.jwk("new"));
    assert!(check(&eager, &token(&new, "new")).await.is_ok());
    // The key that was withdrawn went with the set that named it.
    assert!(invalid(check(&eager, &token(&old, "old")).await).contains("not known"));
    // A set that cannot be read leaves the one before.
    *set.lock().unwrap() = "nonsense".into();
    assert!(invalid(check(&eager, &token(&new, "x")).await).contains("not known"));
    assert!(check(&eager, &token(&new, "new")).await.is_ok());
}

#[tokio::test]
async fn without_keys_the_answer_is_unavailable() {
    let server = HttpServer::start(|_| (500, String::new()));
    let tokens = by_keys(KeySource::Url(server.url("/jwks").parse().unwrap(), http()), READ_AGAIN_AFTER);
    let token = Signer::ed25519().sign("k", &claims(now() + 60));
    for _ in 0..3 {
        assert!(matches!(check(&tokens, &token).await, Err(TokenError::Unavailable(_))));
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_authorization_server_is_asked_once_for_each_token() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = HttpServer::start(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        // RFC 7662 §2.1, RFC 6749 §2.3.1: base64 of `mail:s%2Fcret`.
        let head = request.to_ascii_lowercase();
        assert!(head.starts_with("post /introspect http/1.1\r\n"), "{request}");
        assert!(head.contains("content-type: application/x-www-form-urlencoded\r\n"), "{request}");
        assert!(request.contains("Basic bWFpbDpzJTJGY3JldA=="), "{request}");
        match request.rsplit_once("\r\n\r\n").unwrap().1 {
            "token=good%2B1&token_type_hint=access_token" => {
                (200, format!(r#"{{"active":true,{}"#, &claims(now() + 600)[1..]))
            }
            "token=old&token_type_hint=access_token" => {
                (200, format!(r#"{{"active":true,{}"#, &claims(now() - 600)[1..]))
            }
            "token=odd&token_type_hint=access_token" => (200, r#"{"active":"yes"}"#.to_owned()),
            "token=huge&token_type_hint=access_token" => (200, "x".repeat(100_000)),
            "token=down&token_type_hint=access_token" => (503, String::new()),
            _ => (200, r#"{"active":false}"#.to_owned()),
        }
    });
    let secret = Secret::new("s/cret".to_owned());
    let url = || server.url("/introspect").parse().unwrap();
    let asking = |remembered| {
        checking(Judge::Server(Introspection::new(url(), http(), ("mail", &secret), remembered)))
    };
    let tokens = asking(Duration::from_secs(60));
    for _ in 0..3 {
        assert_eq!(check(&tokens, "good+1").await.unwrap().name, "ana@example.org");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(invalid(check(&tokens, "other").await).contains("not active"));
    assert_eq!(check(&tokens, "old").await, Err(TokenError::Expired));
    for token in ["odd", "huge", "down"] {
        match check(&tokens, token).await {
            Err(TokenError::Unavailable(why)) => {
                assert!(!why.contains(token) && !why.contains("cret"), "{why}")
            }
            other => panic!("{token}: {other:?}"),
        }
    }
    let before = asked.load(Ordering::SeqCst);
    let forgetful = asking(Duration::ZERO);
    for _ in 0..2 {
        assert!(check(&forgetful, "good+1").await.is_ok());
    }
    assert_eq!(asked.load(Ordering::SeqCst), before + 2);
}

/// RFC 7662 §2.2: `exp` is optional.
#[tokio::test]
async fn a_session_of_a_token_that_never_expires_has_an_end() {
    let server = HttpServer::start(|request| {
        let of = claims(7);
        let without = match request.contains("token=null&") {
            true => of.replace(":7}", ":null}"),
            false => of.replace(r#","exp":7"#, ""),
        };
        assert_ne!(without, of);
        (200, format!(r#"{{"active":true,{}"#, &without[1..]))
    });
    let secret = Secret::new(String::new());
    let judge = || {
        let url = server.url("/introspect").parse().unwrap();
        Judge::Server(Introspection::new(url, http(), ("", &secret), Duration::from_secs(3600)))
    };
    let tokens = checking(judge());
    // The second answer of each is a remembered one.
    for token in ["null", "absent", "null", "absent"] {
        let before = now();
        let until = check(&tokens, token).await.unwrap().until.unwrap();
        let expected = before + WITHOUT_EXPIRY_SECONDS..=now() + WITHOUT_EXPIRY_SECONDS;
        assert!(expected.contains(&until), "{token}: {until}, {expected:?}");
    }
    // The administrator wants no end.
    let endless = Tokens::new(judge(), wanted(), "example.org".into(), SessionEnd::Never);
    assert_eq!(check(&endless, "absent").await.unwrap().until, None);
}

/// No account has such a name.
#[tokio::test]
async fn an_answer_with_a_very_long_name_is_not_remembered() {
    let server = HttpServer::start(|request| {
        let len = if request.contains("token=short&") { 300 } else { 50_000 };
        let named = claims(now() + 600).replace("ana@", &format!("{}@", "x".repeat(len)));
        let scope = if request.contains("token=other&") { r#""scope":"other""# } else { r#""scope":"mail""# };
        let named = named.replace(r#""scope":"mail""#, scope);
        (200, format!(r#"{{"active":true,{}"#, &named[1..]))
    });
    let (url, secret) = (server.url("/introspect").parse().unwrap(), Secret::new(String::new()));
    let asking = Introspection::new(url, http(), ("", &secret), Duration::from_secs(3600));
    let tokens = checking(Judge::Server(asking));
    // Without the scope it is: its holder would cause requests that nothing counts.
    for (token, requests) in [("short", 1), ("long", 3), ("other", 1)] {
        let before = server.requests().len();
        for _ in 0..3 {
            assert_eq!(check(&tokens, token).await.is_ok(), token != "other");
        }
        assert_eq!(server.requests().len() - before, requests, "{token}");
    }
}

#[tokio::test]
async fn names_without_a_domain_get_one_and_sessions_may_outlive_tokens() {
    let (dir, signer) = (tempdir(), Signer::ed25519());
    let keys = KeyStore::new(set_file(&dir, &[signer.jwk("k")]), READ_AGAIN_AFTER);
    let judge = Judge::Keys { keys, algorithms: ALL.to_vec() };
    let wanted = RequiredClaims { claim: "sub".into(), ..wanted() };
    let tokens = Tokens::new(judge, wanted, "example.org".into(), SessionEnd::Never);
    let token = signer
        .sign("k", &claims(now() + 600).replace("\"email\"", "\"sub\"").replace("ana@example.org", "ana"));
    assert_eq!(check(&tokens, &token).await, Ok(Granted { name: "ana@example.org".into(), until: None }));
    assert_eq!(tokens.discovery(), Some("https://id.example/.well-known/openid-configuration"));
    assert!(!format!("{tokens:?}").contains(&token));
}

/// A directory of this test's own.
fn tempdir() -> std::path::PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("tokens-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
