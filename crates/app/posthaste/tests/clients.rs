//! Other people's clients against the real server: curl, mbsync, neomutt, OfflineIMAP, imapfilter,
//! msmtp, Roundcube, and the libraries imaplib, IMAPClient, Mail::IMAPClient, imapflow, node-imap,
//! go-imap, Angus Mail.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use posthaste_testkit::{
    Mbsync, Server, ServerBuilder, client_library, client_tests_wanted, message, run_client, run_python,
};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account(USER, PASSWORD);
    server
}

/// With Gmail's extensions, and a second account.
fn server_like_gmail() -> Server {
    let settings = tempfile::NamedTempFile::new().unwrap();
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(settings.path(), "[imap]\ngmail = true\n")
        .start();
    server.add_account(USER, PASSWORD);
    server.add_account("ben@example.org", PASSWORD);
    server
}

fn curl(address: SocketAddr, path: &str, args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--max-time", "60", "--user", &format!("{USER}:{PASSWORD}")])
        .args(args)
        .arg(format!("imap://{address}/{path}"));
    run_client(command)
}

#[test]
fn imaplib_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    let port = server.address("imap").port().to_string();
    let said = run_python(include_str!("clients/imaplib_round.py"), &[&port, USER, PASSWORD]);
    assert!(said.contains("imaplib: done"), "{said}");
}

#[test]
fn perl_s_imapclient_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    let port = server.address("imap").port().to_string();
    let mut perl = Command::new("perl");
    perl.args(["-e", include_str!("clients/imapclient_round.pl"), &port, USER, PASSWORD]);
    let said = run_client(perl);
    assert!(said.contains("imapclient: done"), "{said}");
}

#[test]
fn python_s_imapclient_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let Some(library) = client_library("imapclient-4.1.0", "python3") else { return };
    let server = server_like_gmail();
    let port = server.address("imap").port().to_string();
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", library).args(["-c", include_str!("clients/imapclient_round.py")]);
    python.args([&port, USER, PASSWORD, "ben@example.org"]);
    let said = run_client(python);
    assert!(said.contains("IMAPClient: done"), "{said}");
}

/// The output of a script for Node. It gets the port, the user and the password.
fn run_in_node(library: &Path, script: &str, server: &Server) -> String {
    let mut node = Command::new("node");
    node.env("NODE_PATH", library.join("node_modules")).args(["-e", script, "--"]);
    node.args([&server.address("imap").port().to_string(), USER, PASSWORD]);
    run_client(node)
}

#[test]
fn imapflow_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let Some(library) = client_library("imapflow-1.7.8", "node") else { return };
    let server = server();
    let said = run_in_node(&library, include_str!("clients/imapflow_round.js"), &server);
    assert!(said.contains("imapflow: done"), "{said}");
}

#[test]
fn node_imap_does_a_full_round_with_labels() {
    if !client_tests_wanted() {
        return;
    }
    let Some(library) = client_library("node-imap-0.9.6", "node") else { return };
    let server = server_like_gmail();
    let said = run_in_node(&library, include_str!("clients/node_imap_round.js"), &server);
    assert!(said.contains("node-imap: done"), "{said}");
}

#[test]
fn a_migration_copies_folders_flags_dates_and_labels() {
    if !client_tests_wanted() {
        return;
    }
    let server = server_like_gmail();
    let port = server.address("imap").port().to_string();
    let mut perl = Command::new("perl");
    perl.args(["-e", include_str!("clients/migration_round.pl"), &port, USER, "ben@example.org", PASSWORD]);
    let said = run_client(perl);
    assert!(said.contains("migration: done"), "{said}");
}

#[test]
fn angus_mail_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let Some(library) = client_library("angus-2.0.3", "javac") else { return };
    let server = server();
    let mut java = Command::new("java");
    java.arg("-Dfile.encoding=UTF-8").arg("-cp").arg(library.join("*"));
    java.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/AngusRound.java"));
    java.args([&server.address("imap").port().to_string(), USER, PASSWORD]);
    let said = run_client(java);
    assert!(said.contains("Angus Mail: done"), "{said}");
}

#[test]
fn go_imap_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    if Command::new("go").arg("version").output().is_err() {
        println!("SKIPPED: there is no go for go-imap");
        return;
    }
    let server = server();
    let mut go = Command::new("go");
    go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/go_imap")).args(["run", "."]);
    go.args([&server.address("imap").port().to_string(), USER, PASSWORD]);
    let said = run_client(go);
    assert!(said.contains("go-imap: done"), "{said}");
}

#[test]
fn imapfilter_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let script = dir.path().join("round.lua");
    std::fs::write(&script, include_str!("clients/imapfilter_round.lua")).unwrap();
    let mut imapfilter = Command::new("imapfilter");
    imapfilter.arg("-c").arg(&script).env("HOME", dir.path());
    imapfilter.env("PORT", server.address("imap").port().to_string());
    imapfilter.env("USER_NAME", USER).env("PASSWORD", PASSWORD);
    let said = run_client(imapfilter);
    assert!(said.contains("imapfilter: done"), "{said}");
}

#[test]
fn offlineimap_mirrors_both_ways_and_then_has_nothing_to_do() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let port = server.address("imap").port().to_string();
    let work = dir.path().to_str().unwrap();
    let said = run_python(include_str!("clients/offlineimap_round.py"), &[&port, USER, PASSWORD, work]);
    assert!(said.contains("OfflineIMAP: done"), "{said}");
}

#[test]
fn roundcube_in_a_browser_reads_sorts_moves_and_sends() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.add_account("ben@example.org", PASSWORD);
    let port = |listener| server.address(listener).port().to_string();
    let work = dir.path().to_str().unwrap();
    let arguments = [&port("imap"), &port("submission"), USER, PASSWORD, work];
    let said = run_python(include_str!("clients/roundcube_round.py"), &arguments);
    assert!(said.contains("Roundcube: done"), "{said}");
}

#[test]
fn msmtp_submits_by_every_way_in() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.add_account("ben@example.org", PASSWORD);
    let mail = dir.path().join("mail.eml");
    let text = "From: ana@example.org\nDate: Tue, 14 Nov 2023 22:13:20 +0000\nMessage-ID: <1@example.org>\n\n.\n..\nFrom gr\u{fc}n\n";
    std::fs::write(&mail, text).unwrap();
    let trust = format!("--tls-trust-file={}", server.data().join("tls-certificate.pem").display());
    let clear = ["--tls=off"];
    let starttls = ["--tls=on", "--tls-starttls=on", &trust];
    let tls = ["--tls=on", "--tls-starttls=off", &trust];
    let submit = |protocol: &str, transport: &[&str], auth: &str, to: &[&str]| {
        let mut command = Command::new("sh");
        // msmtp reads the message from its standard input.
        command.args(["-c", "mail=$1; shift; msmtp \"$@\" <\"$mail\" || echo \"ended with $?\"", "sh"]);
        command.arg(&mail).args(["--file=/dev/null", "--host=localhost", "--from", USER, "--user", USER]);
        command.arg(format!("--port={}", server.address(protocol).port()));
        command.args([&format!("--passwordeval=echo {PASSWORD}"), &format!("--auth={auth}")]);
        command.args(transport).args(to);
        run_client(command)
    };
    let ways = [
        ("submission", &clear[..], "plain"),
        ("submission", &clear[..], "login"),
        ("submission", &clear[..], "scram-sha-256"),
        ("submission", &starttls[..], "plain"),
        ("submission", &starttls[..], "scram-sha-256"),
        ("submissions", &tls[..], "on"),
    ];
    for (protocol, transport, auth) in ways {
        assert_eq!(
            submit(protocol, transport, auth, &["ben@example.org"]),
            "",
            "{protocol} {transport:?} {auth}"
        );
    }
    let refused = submit("submission", &clear, "plain", &["ben@example.org", "nobody@example.org"]);
    assert!(refused.contains("550 5.1.1") && refused.contains("ended with"), "{refused}");

    let imap = server.address("imap");
    let read = |uid: usize| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "60", "--user", &format!("ben@example.org:{PASSWORD}")]);
        command.arg(format!("imap://{imap}/INBOX;UID={uid}"));
        run_client(command)
    };
    for uid in 1..=ways.len() {
        let arrived = read(uid);
        assert!(arrived.starts_with("Return-Path: <ana@example.org>\r\nReceived: from "), "{arrived}");
        assert!(arrived.ends_with(&text.replace('\n', "\r\n")), "{arrived}");
    }
}

#[test]
fn curl_appends_lists_reads_flags_and_searches() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let imap = server.address("imap");
    let mail = dir.path().join("mail.eml");
    std::fs::write(&mail, message(7)).unwrap();
    curl(imap, "INBOX", &["--upload-file", mail.to_str().unwrap()]);
    assert!(curl(imap, "", &[]).contains("INBOX"));
    assert_eq!(curl(imap, "INBOX;UID=1", &[]).into_bytes(), message(7));
    // Its first reading sets \Seen: curl takes the first response it sees for the body.
    curl(imap, "INBOX", &["--request", "STORE 1 -FLAGS (\\Seen)"]);
    assert_eq!(curl(imap, "INBOX;MAILINDEX=1", &[]).into_bytes(), message(7));
    let subject = curl(imap, "INBOX;UID=1;SECTION=HEADER.FIELDS%20(SUBJECT)", &[]);
    assert_eq!(subject.trim_end(), "Subject: Message 7 of many");
    curl(imap, "INBOX", &["--request", "STORE 1 +FLAGS (\\Flagged)"]);
    assert_eq!(curl(imap, "INBOX?FLAGGED", &[]).trim(), "* SEARCH 1");
    assert_eq!(curl(imap, "INBOX?SUBJECT%20nothing", &[]).trim(), "* SEARCH");
    curl(imap, "INBOX", &["--request", "COPY 1 Archive"]);
    assert!(curl(imap, "", &["--request", "STATUS Archive (MESSAGES)"]).contains("MESSAGES 1"));
    curl(imap, "INBOX", &["--request", "CREATE Curled"]);
    curl(imap, "INBOX", &["--request", "MOVE 1 Curled"]);
    assert!(curl(imap, "", &["--request", "STATUS Curled (MESSAGES)"]).contains("MESSAGES 1"));
    curl(imap, "Curled", &["--request", "STORE 1 +FLAGS (\\Deleted)"]);
    curl(imap, "Curled", &["--request", "EXPUNGE"]);
    assert!(curl(imap, "", &["--request", "STATUS Curled (MESSAGES)"]).contains("MESSAGES 0"));
}

#[test]
fn curl_trusts_the_certificate_over_tls_and_starttls() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    let certificate = server.data().join("tls-certificate.pem");
    let base = |scheme: &str, protocol: &str, more: &[&str]| {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--show-error", "--max-time", "60", "--cacert"])
            .arg(&certificate)
            .args(["--user", &format!("{USER}:{PASSWORD}")])
            .args(more)
            .arg(format!("{scheme}://localhost:{}/", server.address(protocol).port()));
        run_client(command)
    };
    assert!(base("imaps", "imaps", &[]).contains("INBOX"));
    assert!(base("imap", "imap", &["--ssl-reqd"]).contains("INBOX"));
    assert!(base("imap", "imap", &["--ssl-reqd", "--login-options", "AUTH=PLAIN"]).contains("INBOX"));
}

#[test]
fn mbsync_mirrors_both_ways_and_then_has_nothing_to_do() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let mbox = dir.join("in.mbox");
    posthaste_testkit::Mbox::write(&mbox, 200).unwrap();
    let import =
        server.command(&["import", mbox.to_str().unwrap(), "--account", USER, "--mailbox", "Archive"], "");
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    let mirror = Mbsync::new(dir, server.address("imap"), USER, PASSWORD, "*");
    mirror.run();
    let (archive, files) = (mirror.mailbox("Archive"), mirror.files("Archive"));
    assert_eq!(files.len(), 200);

    // A message written here, and a flag set here, arrive there.
    std::fs::write(mirror.mailbox("INBOX").join("new/1.1.here"), "Subject: from near\n\nhello\n").unwrap();
    let flagged = files.iter().find(|f| f.parent().unwrap().ends_with("cur")).unwrap_or(&files[0]);
    let name = flagged.file_name().unwrap().to_str().unwrap().split(":2,").next().unwrap().to_owned();
    std::fs::rename(flagged, archive.join("cur").join(format!("{name}:2,F"))).unwrap();
    mirror.run();
    let imap = server.address("imap");
    assert!(curl(imap, "INBOX?SUBJECT%20near", &[]).trim().ends_with("SEARCH 1"));
    assert_eq!(curl(imap, "Archive?FLAGGED", &[]).split_whitespace().count(), 3);

    let before = mirror.files("Archive");
    let said = mirror.run();
    assert_eq!(mirror.files("Archive"), before);
    assert!(!said.contains("Error") && !said.contains("warning"), "{said}");
}

/// Cyrus SASL refuses SCRAM with more than 65,536 iterations, and mbsync then fails.
#[test]
fn mbsync_logs_in_with_the_best_mechanism() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let mirror = Mbsync::new(dir.path(), server.address("imap"), USER, PASSWORD, "*").with_mechanisms("*");
    let said = mirror.run();
    assert!(said.contains("SASL mechanism SCRAM-SHA-256"), "{said}");
    assert!(mirror.mailbox("INBOX").is_dir(), "{said}");
}

#[test]
fn neomutt_reads_saves_and_deletes() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let imap = server.address("imap");
    for serial in 0..3 {
        let mail = dir.path().join("m.eml");
        std::fs::write(&mail, message(serial)).unwrap();
        curl(imap, "INBOX", &["--upload-file", mail.to_str().unwrap()]);
    }
    let rc = dir.path().join("muttrc");
    let copied = dir.path().join("copied.mbox");
    std::fs::write(
        &rc,
        format!(
            "set imap_user=\"{USER}\"\nset imap_pass=\"{PASSWORD}\"\nset ssl_starttls=no\nset ssl_force_tls=no\n\
             set delete=yes\nset confirmappend=no\nset confirmcreate=no\nset quit=yes\nset mbox_type=mbox\n\
             set move=no\nset wait_key=no\nset imap_idle=no\nset sort=mailbox-order\nset auto_tag=no\nset header_cache=\"\"\n"
        ),
    )
    .unwrap();
    let folder = format!("imap://127.0.0.1:{}/INBOX", imap.port());
    // First message: copy to a local file. Second: save to Archive on the server (which deletes it
    // here). Third: flag.
    let keys = format!(
        "<first-entry><copy-message><kill-line>{}<enter><next-entry><save-message><kill-line>=Archive<enter><last-entry><flag-message><sync-mailbox><quit>",
        copied.display()
    );
    std::fs::OpenOptions::new()
        .append(true)
        .open(&rc)
        .and_then(|mut f| {
            std::io::Write::write_all(
                &mut f,
                format!("set folder=\"imap://127.0.0.1:{}/\"\n", imap.port()).as_bytes(),
            )
        })
        .unwrap();
    let said = run_python(include_str!("clients/neomutt_round.py"), &[&folder, rc.to_str().unwrap(), &keys]);
    let copied = std::fs::read_to_string(&copied).unwrap_or_else(|e| panic!("{e}\n{said}"));
    assert!(copied.contains("Message 0 of many"), "{copied}\n{said}");
    assert!(curl(imap, "Archive?SUBJECT%20%22Message%201%22", &[]).trim().ends_with("SEARCH 1"), "{said}");
    assert!(curl(imap, "", &["--request", "STATUS INBOX (MESSAGES)"]).contains("MESSAGES 2"), "{said}");
    assert!(curl(imap, "INBOX?FLAGGED", &[]).trim().ends_with("SEARCH 2"), "{said}");
}
