//! Logins by client certificate, by app password and by OAuth token, over every protocol and with
//! other people's clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::{
    HttpServer, LineClient, Server, ServerBuilder, client_tests_wanted, run_client, run_python,
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const ANA: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
const PROTOCOLS: [&str; 4] = ["imap", "pop3", "submission", "sieve"];

/// base64 for tests: what Rust's standard library lacks.
fn base64(octets: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in octets.as_ref().chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, octet| bits << 8 | u32::from(*octet)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let is_there = digit <= group.len();
            let place = DIGITS[(bits >> (18 - 6 * digit) & 63) as usize];
            out.push(if is_there { char::from(place) } else { '=' });
        }
    }
    out
}

fn server(dir: &Path, config: &str) -> Server {
    let file = dir.join("posthaste.toml");
    fs::write(&file, config).unwrap();
    let mut server = ServerBuilder::new(BINARY).arg("--config").arg(file.to_str().unwrap());
    for protocol in ["imap", "imaps", "pop3", "pop3s", "submission", "submissions", "sieve"] {
        server = server.listen(&format!("{protocol}=127.0.0.1:0"));
    }
    let server = server.start();
    server.add_account(ANA, PASSWORD);
    server.add_account("ben@example.org", PASSWORD);
    server
}

/// A command of the server's that must succeed; what it printed.
fn posthaste(server: &Server, args: &[&str]) -> String {
    let output = server.command(args, "");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A login over one protocol; with a certificate it begins with TLS, or STARTTLS where there is no
/// other.
fn case(server: &Server, protocol: &str, mechanism: &str, responses: &[String]) -> Value {
    json!({"protocol": protocol, "port": server.address(protocol).port(), "tls": "starttls",
           "mechanism": mechanism, "responses": responses})
}

fn play(dir: &Path, cases: &[Value]) -> Vec<Value> {
    let file = dir.join("cases.json");
    fs::write(&file, serde_json::to_vec(cases).unwrap()).unwrap();
    let said = run_python(include_str!("../clients/logins.py"), &[file.to_str().unwrap()]);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), cases.len(), "{said}");
    lines
}

fn openssl(dir: &Path, args: &[&str]) {
    let mut command = Command::new("openssl");
    command.current_dir(dir).args(args);
    run_client(command);
}

/// An authority and certificates of clients, made by openssl: the files `NAME.pem` and `NAME.key`.
fn certificates(dir: &Path) {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let mut ca =
        vec!["req", "-x509", "-days", "30", "-subj", "/CN=Authority", "-keyout", "ca.key", "-out", "ca.pem"];
    ca.extend(key);
    openssl(dir, &ca);
    for (name, subject, names) in [
        ("ana", "/O=Example/CN=Ana", "subjectAltName=email:ana@example.org"),
        ("ben", "/CN=Ben/emailAddress=ben@example.org", "extendedKeyUsage=clientAuth"),
        ("nobody", "/CN=Nobody", "subjectAltName=email:nobody@example.org"),
        ("device", "/CN=Device 7", "extendedKeyUsage=clientAuth"),
    ] {
        let (key_file, request, out, names_file) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"), format!("{name}.ext"));
        let mut args = vec!["req", "-subj", subject, "-keyout", &key_file, "-out", &request];
        args.extend(key);
        openssl(dir, &args);
        fs::write(dir.join(&names_file), names).unwrap();
        openssl(
            dir,
            &[
                "x509",
                "-req",
                "-in",
                &request,
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-days",
                "30",
                "-extfile",
                &names_file,
                "-out",
                &out,
            ],
        );
    }
}

fn certificate_server(dir: &Path, mode: &str) -> Server {
    let ca = dir.join("ca.pem");
    let config = format!(
        "[tls]\nclient_certificates = \"optional\"\nclient_ca = \"{}\"\n[login]\ncertificates = \"{mode}\"\n",
        ca.display()
    );
    server(dir, &config)
}

fn with(mut case: Value, dir: &Path, name: &str) -> Value {
    let file = |end: &str| dir.join(format!("{name}.{end}")).to_string_lossy().into_owned();
    case["cert"] = json!(file("pem"));
    case["key"] = json!(file("key"));
    case
}

#[test]
fn a_certificate_logs_in_the_account_it_names_over_every_protocol() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    certificates(dir);
    let server = certificate_server(dir, "email");
    let external =
        |protocol, authorization: &str| case(&server, protocol, "EXTERNAL", &[base64(authorization)]);
    let mut cases = Vec::new();
    for protocol in PROTOCOLS {
        cases.push(with(external(protocol, ""), dir, "ana"));
        cases.push(with(external(protocol, ANA), dir, "ana"));
        cases.push(with(case(&server, protocol, "external", &[]), dir, "ben"));
        cases.push(with(external(protocol, "ben@example.org"), dir, "ana"));
        cases.push(with(external(protocol, ""), dir, "nobody"));
        cases.push(external(protocol, ANA));
    }
    let outcomes = play(dir, &cases);
    for outcomes in outcomes.chunks(6) {
        let good: Vec<bool> = outcomes.iter().map(|one| one["good"] == true).collect();
        assert_eq!(good, [true, true, true, false, false, false], "{outcomes:?}");
        let offers = |at: usize| outcomes[at]["offered"].as_array().unwrap().contains(&json!("EXTERNAL"));
        assert!(offers(0) && offers(4) && !offers(5), "{outcomes:?}");
    }
    assert!(outcomes[4]["said"].as_str().unwrap().contains("[AUTHENTICATIONFAILED]"), "{:?}", outcomes[4]);
    assert_eq!(server.logged_times("by=certificate:", 12).len(), 12);
    assert_eq!(server.logged("reason=certificate").len(), 4);
    // In clear there is no certificate.
    let mut plain = LineClient::connect(server.address("imap")).unwrap();
    assert!(!plain.line().unwrap().contains("EXTERNAL"));

    let curl = |scheme: &str, protocol: &str, more: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--insecure"]).args(more);
        command.args(["--cert"]).arg(dir.join("ana.pem")).arg("--key").arg(dir.join("ana.key"));
        command.args(["--login-options", "AUTH=EXTERNAL", "--user", &format!("{ANA}:")]);
        command.arg(format!("{scheme}://localhost:{}/", server.address(protocol).port()));
        run_client(command)
    };
    assert!(curl("imaps", "imaps", &[]).contains("INBOX"));
    assert!(curl("imap", "imap", &["--ssl-reqd"]).contains("INBOX"));
    curl("pop3s", "pop3s", &[]);
    curl("smtps", "submissions", &["--request", "NOOP"]);
    let script = r#"
import imaplib, smtplib, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.load_cert_chain(sys.argv[3], sys.argv[4])
client = imaplib.IMAP4_SSL("localhost", int(sys.argv[1]), ssl_context=context)
assert "AUTH=EXTERNAL" in client.capabilities, client.capabilities
print(client.authenticate("EXTERNAL", lambda challenge: b""))
print(client.select("INBOX"))
client.logout()
sender = smtplib.SMTP_SSL("localhost", int(sys.argv[2]), context=context)
sender.ehlo()
print(sender.auth("EXTERNAL", lambda challenge=None: "ana@example.org"))
sender.sendmail("ana@example.org", ["ben@example.org"], "Subject: hers\r\n\r\nby certificate\r\n")
"#;
    let port = |protocol| server.address(protocol).port().to_string();
    let file = |name: &str| dir.join(name).to_string_lossy().into_owned();
    run_python(script, &[&port("imaps"), &port("submissions"), &file("ana.pem"), &file("ana.key")]);
}

#[test]
fn a_session_that_is_resumed_has_the_certificate_it_began_with() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    certificates(dir);
    let server = certificate_server(dir, "email");
    let script = r#"
import socket, ssl, sys
port, directory = int(sys.argv[1]), sys.argv[2]
def context_of(name, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    if name:
        context.load_cert_chain(f"{directory}/{name}.pem", f"{directory}/{name}.key")
    return context
def talk(context, session):
    stream = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), session=session)
    file = stream.makefile("rb")
    greeting = file.readline()
    stream.sendall(b"a AUTHENTICATE EXTERNAL =\r\n")
    answer = file.readline()
    reused = stream.session_reused
    kept = stream.session
    stream.sendall(b"b LOGOUT\r\n")
    file.read()
    return answer, reused, kept, b"EXTERNAL" in greeting
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    context = context_of("ana", version)
    first, reused, session, offered = talk(context, None)
    assert first.startswith(b"a OK") and offered and not reused, first
    second, reused, _, _ = talk(context, session)
    assert second.startswith(b"a OK") and reused, (second, reused)
    stranger = context_of(None, version)
    third, reused, _, offered = talk(stranger, None)
    assert third.startswith(b"a NO") and not offered, third
    print("resumed", version)
"#;
    let said = run_python(script, &[&server.address("imaps").port().to_string(), dir.to_str().unwrap()]);
    assert_eq!(said.matches("resumed").count(), 2, "{said}");
    let accounts: Vec<String> = server.logged_times("logged in", 4);
    assert!(accounts.len() == 4 && accounts.iter().all(|line| line.contains(ANA)), "{accounts:?}");
    // Another authority: the old tickets are of no use.
    let other = dir.join("other");
    fs::create_dir(&other).unwrap();
    certificates(&other);
    fs::copy(other.join("ca.pem"), dir.join("ca.pem")).unwrap();
    server.signal("HUP");
    let mut outcome = json!(null);
    for _ in 0..600 {
        let one = with(case(&server, "imap", "EXTERNAL", &[String::new()]), &other, "ana");
        let file = dir.join("one.json");
        fs::write(&file, serde_json::to_vec(&[one]).unwrap()).unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", include_str!("../clients/logins.py")]).arg(&file);
        if let Ok(output) = python.output()
            && output.status.success()
        {
            outcome = serde_json::from_slice(&output.stdout).unwrap();
            break;
        }
    }
    assert_eq!(outcome["good"], json!(true), "{outcome}");
}

#[test]
fn listed_certificates_are_set_shown_and_taken_away() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    certificates(dir);
    let server = certificate_server(dir, "listed");
    let try_device = || {
        let device = with(case(&server, "imap", "EXTERNAL", &[String::new()]), dir, "device");
        play(dir, &[device])[0]["good"] == true
    };
    assert!(!try_device());
    let file = dir.join("device.pem").to_string_lossy().into_owned();
    posthaste(&server, &["account", "set", ANA, "--certificate", &file]);
    assert!(try_device());
    let shown: Value =
        serde_json::from_str(&posthaste(&server, &["account", "show", ANA, "--json"])).unwrap();
    let fingerprint = shown["certificates"][0].as_str().unwrap().to_owned();
    let colons: Vec<String> =
        fingerprint.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
    posthaste(&server, &["account", "set", ANA, "--remove-certificate", &colons.join(":")]);
    assert!(!try_device());
    let wrong = server.command(&["account", "set", ANA, "--certificate", "/no/such/file"], "");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("is not a certificate"), "{said}");
}

#[test]
fn app_passwords_are_made_listed_used_and_removed() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = server(dir, "");
    let made = posthaste(
        &server,
        &["account", "app-password", "add", ANA, "phone", "--protocol", "imap", "--protocol", "sieve"],
    );
    let phone = made.lines().last().unwrap().trim().to_owned();
    let made = posthaste(&server, &["account", "app-password", "add", ANA, "all", "--expires", "90 days"]);
    let all = made.lines().last().unwrap().trim().to_owned();
    let plain = |password: &str| base64(format!("\0{ANA}\0{password}"));
    let mut cases = Vec::new();
    for protocol in PROTOCOLS {
        cases.push(case(&server, protocol, "PLAIN", &[plain(&all)]));
        cases.push(case(&server, protocol, "PLAIN", &[plain(&phone)]));
    }
    let outcomes = play(dir, &cases);
    let good: Vec<bool> = outcomes.iter().map(|one| one["good"] == true).collect();
    // The phone's is for IMAP and ManageSieve.
    assert_eq!(good, [true, true, true, false, true, false, true, true], "{outcomes:?}");
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    assert!(client.imap(&format!("LOGIN {ANA} {phone}")).unwrap().last().unwrap().contains("OK"));

    let list = posthaste(&server, &["account", "app-password", "list", ANA, "--json"]);
    let list: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (list.len(), &list[0]["label"], &list[0]["protocols"]),
        (2, &json!("phone"), &json!(["imap", "sieve"]))
    );
    assert!(list[0]["last_use"].as_u64() > Some(0) && list[1]["expires"].as_u64() > Some(0), "{list:?}");
    let text = posthaste(&server, &["account", "app-password", "list", ANA]);
    assert!(text.contains("last used 20") && !text.contains(&phone), "{text}");

    posthaste(&server, &["account", "app-password", "remove", ANA, "phone"]);
    // Its session ends by itself.
    assert!(client.line().unwrap().starts_with("* BYE Your login has ended"));
    assert_eq!(play(dir, &[case(&server, "imap", "PLAIN", &[plain(&phone)])])[0]["good"], json!(false));
    let id = list[0]["id"].as_str().unwrap();
    server.logged_times(&format!("by=app-password:{id}"), 1);
    // No copy of it anywhere: neither in the log, nor in the list of acts.
    let audit = fs::read_to_string(server.data().join("audit.log")).unwrap();
    assert!(
        audit.contains("account app-password add ana@example.org phone") && audit.contains("remove"),
        "{audit}"
    );
    for secret in [&phone, &all] {
        assert!(server.logged(secret).is_empty() && !audit.contains(secret.as_str()));
    }

    // A backup has the other one, and a restored account takes it.
    let backup = dir.join("backup").to_string_lossy().into_owned();
    posthaste(&server, &["backup", &backup]);
    posthaste(&server, &["restore", &backup, "--account", ANA, "--as", "ana2@example.org"]);
    let restored = base64(format!("\0ana2@example.org\0{all}"));
    assert_eq!(play(dir, &[case(&server, "imap", "PLAIN", &[restored])])[0]["good"], json!(true));
}

const TOKEN: &str = "tok-ana-4f6b1c.9Zq_x~";

/// An authorization server that knows two tokens of Ana's, one of them long.
fn authorization_server() -> HttpServer {
    HttpServer::start(|request| {
        let token = request.rsplit_once("token=").unwrap_or_default().1.split('&').next().unwrap_or_default();
        let claims = match token {
            TOKEN => {
                r#"{"active":true,"aud":"mail","scope":"openid mail","email":"ana@example.org","exp":4102444800}"#
            }
            long if long.len() > 7_000 => {
                r#"{"active":true,"aud":"mail","scope":"mail","email":"ana@example.org"}"#
            }
            "old" => r#"{"active":true,"aud":"mail","scope":"mail","email":"ana@example.org","exp":1}"#,
            "unscoped" => r#"{"active":true,"aud":"mail","email":"ana@example.org"}"#,
            _ => r#"{"active":false}"#,
        };
        (200, claims.to_owned())
    })
}

fn token_server(dir: &Path, tokens: &HttpServer) -> Server {
    let secret: PathBuf = dir.join("secret");
    fs::write(&secret, "s3cret-of-the-client\n").unwrap();
    let config = format!(
        "[oauth]\nintrospection = \"{}\"\nclient_id = \"mail\"\nclient_secret_file = \"{}\"\naudience = [\"mail\"]\n\
         scope = \"mail\"\n",
        tokens.url("/introspect"),
        secret.display()
    );
    server(dir, &config)
}

fn oauthbearer(name: &str, token: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("a={name}") };
    base64(format!("n,{name},\x01host=localhost\x01port=143\x01auth=Bearer {token}\x01\x01"))
}

fn xoauth2(name: &str, token: &str) -> String {
    base64(format!("user={name}\x01auth=Bearer {token}\x01\x01"))
}

#[test]
fn tokens_let_in_over_every_protocol_and_are_in_no_log() {
    if !client_tests_wanted() {
        return;
    }
    let (dir, tokens) = (tempfile::tempdir().unwrap(), authorization_server());
    let dir = dir.path();
    let server = token_server(dir, &tokens);
    let long = "x".repeat(7_500);
    let dummy = base64("\x01");
    let mut cases = Vec::new();
    for protocol in PROTOCOLS {
        let mut add =
            |mechanism: &str, responses: &[String]| cases.push(case(&server, protocol, mechanism, responses));
        add("OAUTHBEARER", &[oauthbearer(ANA, TOKEN)]);
        add("OAUTHBEARER", &[oauthbearer("", TOKEN)]);
        add("XOAUTH2", &[xoauth2(ANA, TOKEN)]);
        add("XOAUTH2", &[xoauth2(ANA, &long)]);
        add("OAUTHBEARER", &[oauthbearer("ben@example.org", TOKEN), dummy.clone()]);
        add("OAUTHBEARER", &[oauthbearer(ANA, "unscoped"), dummy.clone()]);
        add("OAUTHBEARER", &[oauthbearer(ANA, "old"), dummy.clone()]);
        // Each failure for one name is answered later than the one before.
        add("XOAUTH2", &[xoauth2(&format!("x-{protocol}@example.org"), "forged"), String::new()]);
        add("OAUTHBEARER", &[oauthbearer(&format!("y-{protocol}@example.org"), "forged"), "*".into()]);
    }
    let outcomes = play(dir, &cases);
    for outcomes in outcomes.chunks(9) {
        let good: Vec<bool> = outcomes.iter().map(|one| one["good"] == true).collect();
        assert_eq!(good, [true, true, true, true, false, false, false, false, false], "{outcomes:?}");
        let invalid = json!(r#"{"status":"invalid_token","scope":"mail"}"#);
        assert_eq!(outcomes[4]["challenge"], invalid, "{:?}", outcomes[4]);
        assert_eq!(outcomes[5]["challenge"], json!(r#"{"status":"insufficient_scope","scope":"mail"}"#));
        assert_eq!(outcomes[6]["challenge"], invalid);
        assert_eq!(outcomes[7]["challenge"], json!(r#"{"status":"400","schemes":"Bearer","scope":"mail"}"#));
        let offered: Vec<&str> =
            outcomes[0]["offered"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let all = "SCRAM-SHA-256-PLUS SCRAM-SHA-256 OAUTHBEARER XOAUTH2 PLAIN LOGIN";
        let all = if outcomes[0]["protocol"] == "sieve" {
            all.replace(" XOAUTH2", "").replace(" LOGIN", "")
        } else {
            all.into()
        };
        assert_eq!(offered.join(" "), all);
    }
    let said = |at: usize| outcomes[at]["said"].as_str().unwrap().to_owned();
    assert!(said(4).starts_with("a NO [AUTHORIZATIONFAILED]"), "{}", said(4));
    assert!(said(6).starts_with("a NO [EXPIRED]"), "{}", said(6));
    assert!(
        said(7).starts_with("a NO [AUTHENTICATIONFAILED]") && said(8).starts_with("a BAD"),
        "{} {}",
        said(7),
        said(8)
    );
    assert!(said(9 + 7).starts_with("-ERR [AUTH]") && said(18 + 7).starts_with("535 5.7.8"), "{outcomes:?}");
    assert_eq!(server.logged_times("by=token", 16).len(), 16);
    // Also the client that gave up instead of hearing it out is in the log.
    assert_eq!(server.logged("reason=token").len(), 8, "{:?}", server.logged("reason="));
    assert_eq!(server.logged("reason=expired").len(), 4);
    // Secrets: tokens, the secret of this server, and what was encoded.
    for secret in [TOKEN, "s3cret-of-the-client", &long[..200], &oauthbearer(ANA, TOKEN)[..40], "forged"] {
        assert!(server.logged(secret).is_empty(), "{:?}", server.logged(secret));
    }
    // One question for each token, if it is good.
    assert_eq!(tokens.requests().iter().filter(|request| request.contains(TOKEN)).count(), 1);
}

#[test]
fn curl_and_python_log_in_with_tokens() {
    if !client_tests_wanted() {
        return;
    }
    let (dir, tokens) = (tempfile::tempdir().unwrap(), authorization_server());
    let dir = dir.path();
    let server = token_server(dir, &tokens);
    let curl = |url: &str, protocol: &str, token: &str, more: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--insecure", "--user", ANA]);
        command.args(["--oauth2-bearer", token]).args(more);
        command.arg(format!("{url}://localhost:{}/", server.address(protocol).port()));
        command
    };
    for more in [&[][..], &["--sasl-ir"], &["--login-options", "AUTH=XOAUTH2"]] {
        assert!(run_client(curl("imaps", "imaps", TOKEN, more)).contains("INBOX"), "{more:?}");
        run_client(curl("pop3s", "pop3s", TOKEN, more));
        let smtp = [more, &["--request", "NOOP"]].concat();
        run_client(curl("smtps", "submissions", TOKEN, &smtp));
    }
    for (url, protocol) in [("imaps", "imaps"), ("pop3s", "pop3s"), ("smtps", "submissions")] {
        let refused =
            curl(url, protocol, "forged", &["--user", &format!("{protocol}@example.org")]).output().unwrap();
        // CURLE_LOGIN_DENIED
        assert_eq!(refused.status.code(), Some(67), "{refused:?}");
    }
    let script = r#"
import imaplib, poplib, smtplib, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def text(token):
    return "user=ana@example.org\x01auth=Bearer %s\x01\x01" % token
client = imaplib.IMAP4_SSL("localhost", int(sys.argv[1]), ssl_context=context)
print(client.authenticate("XOAUTH2", lambda challenge: text(sys.argv[3]).encode()))
print(client.select("INBOX"))
client.logout()
client = imaplib.IMAP4_SSL("localhost", int(sys.argv[1]), ssl_context=context)
try:
    client.authenticate("XOAUTH2", lambda challenge: b"" if challenge else text("forged").replace("ana", "cy").encode())
    raise SystemExit("a forged token was taken")
except imaplib.IMAP4.error as error:
    assert "AUTHENTICATIONFAILED" in str(error), error
sender = smtplib.SMTP_SSL("localhost", int(sys.argv[2]), context=context)
sender.ehlo()
sender.auth("XOAUTH2", lambda challenge=None: text(sys.argv[3]))
sender.sendmail("ana@example.org", ["ana@example.org"], "Subject: hers\r\n\r\nby token\r\n")
"#;
    let port = |protocol| server.address(protocol).port().to_string();
    run_python(script, &[&port("imaps"), &port("submissions"), TOKEN]);
}

#[test]
fn a_failed_setup_stops_the_start_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("posthaste.toml");
    for (config, said) in [
        ("[login]\ncertificates = \"email\"\n", "needs `tls.client_certificates`"),
        ("[oauth]\njwks = \"/k.json\"\n", "needs `oauth.issuer` and `oauth.audience`"),
        ("[oauth]\nintrospection = \"http://id.example/\"\n", "in clear"),
    ] {
        fs::write(&file, config).unwrap();
        let start = ServerBuilder::new(BINARY).arg("--config").arg(file.to_str().unwrap()).try_start();
        let output = start.err().unwrap();
        assert!(output.contains(said), "{output}");
    }
}
