//! The program prints a note before it sends passwords to a server whose certificate is not
//! verified, or that has no TLS.

use std::process::Command;

/// The error of `populate` about a server that does not exist.
fn said(url: &str) -> String {
    let words =
        ["populate", "--imap", url, "--users", "ana", "--password", "x", "--inbox", "1", "--timeout", "1s"];
    let out = Command::new(env!("CARGO_BIN_EXE_posthaste-load")).args(words).output().unwrap();
    assert!(!out.status.success(), "nobody is there");
    String::from_utf8(out.stderr).unwrap()
}

#[test]
fn a_certificate_that_is_not_verified_is_named() {
    let with_tls = said("imaps://mail.invalid");
    assert!(with_tls.contains("certificates of mail.invalid are not verified"), "{with_tls}");
    assert!(with_tls.contains("--ca"), "{with_tls}");
    // Without TLS there is no certificate; on this machine nobody is in between.
    for url in ["imap://mail.invalid", "imaps://127.0.0.1:1"] {
        let said = said(url);
        assert!(!said.contains("not verified"), "{said}");
    }
}

#[test]
fn a_host_that_gets_passwords_without_tls_is_named() {
    let plain = said("imap://mail.invalid");
    assert!(plain.contains("passwords for mail.invalid are sent without TLS"), "{plain}");
    for url in ["imaps://mail.invalid", "imap://127.0.0.1:1"] {
        let said = said(url);
        assert!(!said.contains("without TLS"), "{said}");
    }
}
