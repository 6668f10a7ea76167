//! Python's smtplib, which nobody here wrote.

use posthaste_smtp_server::Role;
use posthaste_testkit::{client_tests_wanted, run_python};

use crate::talk::{PASSWORD, Setup};

const SUBMISSION: &str = r#"
import smtplib, ssl, sys
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
message = "From: ana@example.org\r\nTo: ben@example.org\r\nSubject: caf\u00e9\r\n\r\n.dot\r\n..dots\r\n"
with smtplib.SMTP("127.0.0.1", int(sys.argv[1]), local_hostname="client.example", timeout=60) as smtp:
    smtp.ehlo()
    assert smtp.has_extn("size") and smtp.has_extn("chunking") and smtp.has_extn("pipelining")
    smtp.starttls(context=context)
    try:
        smtp.login("ana@example.org", "wrong")
        sys.exit("a wrong password was taken")
    except smtplib.SMTPAuthenticationError as error:
        assert error.smtp_code == 535, error
    smtp.login("ana@example.org", sys.argv[2])
    refused = smtp.sendmail("ana@example.org", ["ben@example.org", "x@elsewhere.example"],
                            message.encode("utf-8"), mail_options=["BODY=8BITMIME"])
    assert refused["x@elsewhere.example"][0] == 550, refused
"#;

const LMTP: &str = r#"
import smtplib, sys
with smtplib.LMTP("127.0.0.1", int(sys.argv[1]), local_hostname="client.example", timeout=60) as lmtp:
    lmtp.ehlo()
    refused = lmtp.sendmail("carl@example.net", ["ana@example.org", "nobody@example.org"], b"hello\r\n.\r\n")
    assert list(refused) == ["nobody@example.org"] and refused["nobody@example.org"][0] == 550, refused
"#;

async fn python(script: &'static str, port: u16) {
    tokio::task::spawn_blocking(move || run_python(script, &[&port.to_string(), PASSWORD])).await.unwrap();
}

#[tokio::test]
async fn smtplib_submits() {
    if !client_tests_wanted() {
        return;
    }
    let server = Setup::new(Role::Submission).start().await;
    python(SUBMISSION, server.address.port()).await;
    let (head, message) = server.only_message("ben@example.org").await;
    assert!(head.contains("with ESMTPSA"), "{head}");
    assert!(message.contains("Subject: café\r\n") && message.ends_with("\r\n\r\n.dot\r\n..dots\r\n"));
}

#[tokio::test]
async fn smtplib_delivers_by_lmtp() {
    if !client_tests_wanted() {
        return;
    }
    let server = Setup::new(Role::Lmtp).start().await;
    python(LMTP, server.address.port()).await;
    assert_eq!(server.only_message("ana@example.org").await.1, "hello\r\n.\r\n");
}
