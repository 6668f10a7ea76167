//! URLAUTH: RFC 4467.

use posthaste_testkit::Wire;

use crate::harness::{Server, response};

const MESSAGE: &str = "Subject: secret\n\nfor you\n";
const ANA: &str = "imap://ana%40example.org@localhost";

/// Has a URL authorised.
fn authorise(wire: &mut Wire, rump: &str) -> String {
    wire.send(format!("g GENURLAUTH \"{rump}\" INTERNAL\r\n").as_bytes());
    let line = wire.line().expect("an answer");
    wire.expect("g OK …");
    let url = line.strip_prefix("* GENURLAUTH \"").and_then(|rest| rest.strip_suffix('"'));
    let url = url.unwrap_or_else(|| panic!("{line}"));
    assert!(url.starts_with(&format!("{rump}:INTERNAL:01")), "{url}");
    url.to_owned()
}

/// The answer of URLFETCH to one URL; `None` for NIL.
fn fetched(wire: &mut Wire, url: &str) -> Option<String> {
    wire.send(format!("f URLFETCH \"{url}\"\r\n").as_bytes());
    let whole = String::from_utf8(response(wire)).expect("UTF-8");
    wire.expect("f OK …");
    let value = whole.strip_prefix(&format!("* URLFETCH \"{url}\" ")).unwrap_or_else(|| panic!("{whole}"));
    match value {
        "NIL\r\n" => None,
        literal => {
            literal.split_once("}\r\n").and_then(|(_, text)| text.strip_suffix("\r\n")).map(str::to_owned)
        }
    }
}

#[test]
fn a_url_is_authorised_and_read_by_the_user_it_names() {
    let server = Server::start();
    let mut ana = server.with_message(MESSAGE);
    let mut bo = server.login_as_new("bo@example.org");
    let of = |access: &str| format!("{ANA}/INBOX/;UID=1/;SECTION=TEXT;URLAUTH={access}");
    for (access, for_bo, for_ana) in [
        ("anonymous", true, true),
        ("authuser", true, true),
        ("user+bo%40example.org", true, false),
        ("user+ana%40example.org", false, true),
        // Only where mail is sent: RFC 4467 §3.
        ("submit+bo%40example.org", false, false),
    ] {
        let url = authorise(&mut ana, &of(access));
        let text = |is_readable: bool| is_readable.then(|| "for you\r\n".to_owned());
        assert_eq!(fetched(&mut bo, &url), text(for_bo), "{access}");
        assert_eq!(fetched(&mut ana, &url), text(for_ana), "{access}");
        // Nothing of it may be changed.
        assert_eq!(fetched(&mut bo, &url.replace("SECTION=TEXT", "SECTION=HEADER")), None);
        assert_eq!(fetched(&mut bo, &url.replace(":INTERNAL:01", ":INTERNAL:02")), None);
        assert_eq!(fetched(&mut bo, &url.replace(":INTERNAL:", ":OTHER:")), None);
    }
    let url = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1/;PARTIAL=9.6;URLAUTH=authuser"));
    assert_eq!(fetched(&mut bo, &url).as_deref(), Some("secret"));
    // Several URLs in one command, by UID alone and with QRESYNC.
    let mut other = server.login();
    other.run("C: a ENABLE QRESYNC UIDONLY\nS~ a OK …\nC: b SELECT INBOX\nS~ b OK …");
    other.run(&format!("C: c URLFETCH \"{url}\" \"{ANA}/INBOX/;UID=1\""));
    other.run(&format!(
        "S: * URLFETCH \"{url}\" {{6}}\nS: secret\nS: * URLFETCH \"{ANA}/INBOX/;UID=1\" NIL\nS: c OK …"
    ));
    // It may be put into a message, too.
    bo.run(&format!("C: a APPEND INBOX CATENATE (URL \"{url}\")\nS: a OK [APPENDUID …] …"));
}

#[test]
fn keys_are_made_void() {
    let server = Server::start();
    let mut ana = server.with_message(MESSAGE);
    let inbox = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1;URLAUTH=authuser"));
    ana.run("C: a COPY 1 Archive\nS~ a OK …");
    let archive = authorise(&mut ana, &format!("{ANA}/Archive/;UID=1;URLAUTH=authuser"));
    let mut other = server.login();
    other.run("C: a RESETKEY INBOX INTERNAL\nS: a OK [URLMECH INTERNAL] …");
    assert_eq!(fetched(&mut ana, &inbox), None);
    assert!(fetched(&mut ana, &archive).is_some());
    let again = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1;URLAUTH=authuser"));
    assert_ne!(again, inbox);
    assert!(fetched(&mut other, &again).is_some());
    other.run("C: b RESETKEY\nS: b OK [URLMECH INTERNAL] …");
    assert_eq!(fetched(&mut ana, &again), None);
    assert_eq!(fetched(&mut ana, &archive), None);
    // A mailbox of the same name is another one.
    let archive = authorise(&mut ana, &format!("{ANA}/Archive/;UID=1;URLAUTH=authuser"));
    other.run("C: c DELETE Archive\nS~ c OK …\nC: d CREATE Archive\nS~ d OK …");
    server.put("Archive", b"Subject: other\r\n\r\nx\r\n");
    assert_eq!(fetched(&mut ana, &archive), None);
}

#[test]
fn urls_expire_and_a_removed_account_has_none() {
    let server = Server::start();
    let mut ana = server.with_message(MESSAGE);
    let url =
        authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1;EXPIRE=2001-01-01T00:00:00Z;URLAUTH=authuser"));
    assert_eq!(fetched(&mut ana, &url), None);
    let url =
        authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1;EXPIRE=2100-01-01T00:00:00Z;URLAUTH=authuser"));
    assert!(fetched(&mut ana, &url).is_some());
    assert_eq!(fetched(&mut ana, &url.replace("2100", "2101")), None);
    let mut bo = server.login_as_new("bo@example.org");
    server.limit(posthaste_directory::AccountChange {
        disabled: Some(true),
        ..posthaste_directory::AccountChange::default()
    });
    assert_eq!(fetched(&mut bo, &url), None);
}

/// A command may name a thousand URLs. Its time does not show what exists.
#[test]
fn a_refused_url_reads_as_much_whatever_does_not_exist() {
    let (server, faulty) = Server::start_faulty();
    let mut ana = server.with_message(MESSAGE);
    let url = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1;URLAUTH=authuser"));
    let mut bo = server.login_as_new("bo@example.org");
    assert!(fetched(&mut bo, &url).is_some());
    // Another message, a mailbox without authorised URLs, one that is not there, another account.
    for (from, to) in [("UID=1", "UID=2"), ("INBOX", "Sent"), ("INBOX", "Nowhere"), ("ana%40", "cy%40")] {
        faulty.reads_of("");
        assert_eq!(fetched(&mut bo, &url.replace(from, to)), None, "{to}");
        assert_eq!(faulty.reads_of("urlauth/").len(), 1, "{to}");
    }
}

/// The host may be the domain of the user, who then is named without it.
#[test]
fn a_url_may_name_its_user_as_people_write_addresses() {
    let server = Server::start();
    let mut ana = server.with_message(MESSAGE);
    let mut bo = server.login_as_new("bo@example.org");
    for begin in ["imap://ana@example.org", "imap://Ana@EXAMPLE.org", "imap://ANA%40Example.org@localhost"] {
        let url = authorise(&mut ana, &format!("{begin}/INBOX/;UID=1/;SECTION=TEXT;URLAUTH=authuser"));
        assert_eq!(fetched(&mut bo, &url).as_deref(), Some("for you\r\n"), "{begin}");
    }
    let text = "imap://ana@example.org/INBOX/;UID=1;URLAUTH=authuser";
    bo.run(&format!("C: a GENURLAUTH \"{text}\" INTERNAL\nS: a BAD [BADURL {text}] …"));
}

/// RFC 4467 §7
#[test]
fn urls_that_cannot_be_authorised() {
    let server = Server::start();
    let mut ana = server.with_message(MESSAGE);
    for rump in [
        "/INBOX/;UID=1;URLAUTH=authuser",
        "imap://localhost/INBOX/;UID=1;URLAUTH=authuser",
        "imap://bo%40example.org@localhost/INBOX/;UID=1;URLAUTH=authuser",
        "imap://ana%40example.org@elsewhere.example/INBOX/;UID=1;URLAUTH=authuser",
        "imap://ana@localhost/INBOX/;UID=1;URLAUTH=authuser",
        "imap://bo@example.org/INBOX/;UID=1;URLAUTH=authuser",
        "imap://ana%40example.org@localhost/Nowhere/;UID=1;URLAUTH=authuser",
        "imap://ana%40example.org@localhost/INBOX/;UID=1",
        "imap://ana%40example.org@localhost/INBOX;URLAUTH=authuser",
        "nonsense",
    ] {
        ana.run(&format!("C: a GENURLAUTH \"{rump}\" INTERNAL\nS: a BAD [BADURL {rump}] …"));
    }
    let rump = format!("{ANA}/INBOX/;UID=1;URLAUTH=authuser");
    ana.run(&format!("C: b GENURLAUTH \"{rump}\" XSAMPLE\nS: b NO …"));
    ana.run(&format!("C: c GENURLAUTH \"{rump}\"\nS: c BAD …"));
    ana.run("C: d RESETKEY Nowhere\nS: d NO [NONEXISTENT] …\nC: e RESETKEY INBOX OTHER\nS: e NO …");
    ana.run("C: f URLFETCH\nS: f BAD …");
    ana.run("C: g URLFETCH nonsense\nS: * URLFETCH \"nonsense\" NIL\nS: g OK …");
    server.connect().run("C: a URLFETCH x\nS: a BAD …");
}

/// RFC 5524 §4. Data without a NUL is no literal8, as for FETCH BINARY (RFC 3516 §4.3).
#[test]
fn decoded_text() {
    let server = Server::start();
    let mut ana =
        server.with_message("Content-Transfer-Encoding: quoted-printable\n\nSi vis pacem, =\npara bellum.\n");
    let url = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1/;SECTION=1;URLAUTH=authuser"));
    ana.run(&format!(
        "C: A001 URLFETCH (\"{url}\" BODYPARTSTRUCTURE BINARY)\n\
         S: * URLFETCH \"{url}\" (BODYPARTSTRUCTURE (…)) (BINARY {{28}}\n\
         S: Si vis pacem, para bellum.\n\
         S: )\n\
         S: A001 OK …"
    ));
}

#[test]
fn decoded_and_with_the_structure_of_the_part() {
    let server = Server::start();
    let message = "Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
        --b\n\nplain\n--b\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\nAAEC\n--b--\n";
    let mut ana = server.with_message(message);
    let url = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1/;SECTION=2;URLAUTH=authuser"));
    // RFC 5524 §3: the structure of the bytes as they are sent, decoded or not.
    ana.run(&format!(
        "C: 0 URLFETCH (\"{url}\" BODYPARTSTRUCTURE)\n\
         S: * URLFETCH \"{url}\" (BODYPARTSTRUCTURE (\"image\" \"png\" NIL NIL NIL \"base64\" 4 NIL NIL NIL NIL))\n\
         S: 0 OK …"
    ));
    ana.send(format!("a URLFETCH (\"{url}\" BODYPARTSTRUCTURE BINARY)\r\n").as_bytes());
    let mut expected = format!(
        "* URLFETCH \"{url}\" (BODYPARTSTRUCTURE (\"image\" \"png\" NIL NIL NIL \"binary\" 3 NIL NIL NIL NIL)) (BINARY ~{{3}}\r\n"
    )
    .into_bytes();
    expected.extend_from_slice(b"\0\x01\x02)\r\n");
    let got = response(&mut ana);
    assert!(
        got.eq_ignore_ascii_case(&expected),
        "{}\n{}",
        String::from_utf8_lossy(&got),
        String::from_utf8_lossy(&expected)
    );
    ana.expect("a OK …");
    ana.run(&format!("C: b URLFETCH (\"{url}\" BODY) (\"{url}\") (\"nonsense\" BINARY)"));
    ana.run(&format!("S: * URLFETCH \"{url}\" (BODY {{4}}\nS: AAEC)\nS: * URLFETCH \"{url}\""));
    ana.run("S: * URLFETCH \"nonsense\" NIL\nS: b OK …");
    let header = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1/;SECTION=HEADER;URLAUTH=authuser"));
    ana.run(&format!("C: c URLFETCH (\"{header}\" BODYPARTSTRUCTURE)"));
    ana.run(&format!("S: * URLFETCH \"{header}\" (BODYPARTSTRUCTURE NIL)\nS: c OK …"));
    let cut = authorise(&mut ana, &format!("{ANA}/INBOX/;UID=1/;SECTION=2/;PARTIAL=1.1;URLAUTH=authuser"));
    ana.run(&format!(
        "C: d URLFETCH (\"{cut}\" BINARY)\nS: * URLFETCH \"{cut}\" (BINARY {{1}}\nS# 1\nS: )\nS: d OK …"
    ));
    ana.run(&format!("C: e URLFETCH (\"{url}\" BODY BINARY)\nS: e BAD …"));
    ana.run(&format!("C: f URLFETCH (\"{url}\" BODY BODY)\nS: f BAD …"));
    ana.run(&format!("C: g URLFETCH (\"{url}\" OTHER)\nS: g BAD …"));
}
