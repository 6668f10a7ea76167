//! Clients fill the parts of the plan that they can fill, all at the same time. The group has as
//! much memory as the server states for its worst case. Over half of it must be in use.
//!
//! | part | how it is filled |
//! | --- | --- |
//! | connections | FETCH of a thousand header selections, and envelopes of long recipients |
//! | `incoming_bytes` | eight APPENDs: one message has come, and another one but for an octet |
//! | `summary_bytes`, summaries that are made | messages of addresses and of parts come in |
//! | views of open mailboxes, beside the plan | a fifth: an open mailbox of 300,000 messages |
//!
//! The rest is not filled. So the settings make it small, where there are any:
//!
//! | part | why it is not filled |
//! | --- | --- |
//! | the second `incoming_bytes` | it is for copies of a verifier, a milter or a signature |
//! | tables, the queue's items | only attacks of hours from many networks fill them |
//! | Sieve scripts, shared mailboxes | this takes hundreds of accounts |
//! | `reading_bytes`, `store.cache`, old views, hashes | in this test they are some 10 MiB |

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use posthaste_testkit::{LineClient, PYTHON_SESSIONS, Server, ServerBuilder, client_tests_wanted};

use crate::group::group;
use crate::{AT_ONCE, BINARY, PASSWORD, USER, append_many, ask, login, login_as, parts, start};

/// Each has a share of the memory for messages that come in. The first one has most sessions.
const USERS: [&str; 4] = [USER, "bob@example.org", "eve@example.org", "kim@example.org"];
const NEIGHBOUR: &str = "neighbour@example.org";
/// Connections, of which a few stay free.
const CONNECTIONS: usize = 300;
/// Sessions in the worst state of IMAP, and in that of submission.
const FIELDS: usize = 190;
const RECIPIENTS: usize = 95;
/// Messages of the open mailbox: a fifth of what all may have. Another test fills all of that.
const MESSAGES: usize = 300_000;
/// Octets of a message, just below the largest that LMTP takes: 16 KiB are for added fields.
const MESSAGE_LEN: usize = 240_000;

/// All parts that have a setting are as small as this test lets them be.
fn settings(memory: &str) -> String {
    format!(
        "[limits]\nmemory = \"{memory}\"\nconnections = {CONNECTIONS}\nmessage_size = \"256 KiB\"\n\
         incoming_bytes = \"4 MiB\"\nreading_bytes = \"1 MiB\"\nsummary_bytes = \"25 MiB\"\n\
         account_connections = 0\naccount_commands_per_minute = 0\n\
         submitted_recipients_per_hour = 0\nsubmitted_recipients_per_day = 0\n\
         [store]\ncache = \"1 MiB\"\n[search]\nindex = false\n[login]\nargon2_memory = \"7 MiB\"\n\
         [relay]\nenabled = true\n"
    )
}

/// The worst case that the server states, in KiB. With less memory it does not start.
fn stated_worst_case(dir: &Path) -> usize {
    let server = ServerBuilder::new(BINARY).data(dir.join("refused"));
    let Err(refusal) = server.settings(&dir.join("refused.toml"), settings("1 MiB")).try_start() else {
        panic!("the server started with 1 MiB")
    };
    let stated = refusal.split("the server would use ").nth(1).and_then(|rest| rest.split(" MiB").next());
    // With one decimal, such as 499.9.
    let tenths: Option<usize> = stated.and_then(|stated| stated.replace('.', "").parse().ok());
    let tenths = tenths.unwrap_or_else(|| panic!("{refusal}"));
    // It may be rounded down by half a tenth. The limit of a group is a number of pages.
    ((2 * tenths + 1) * 1024).div_ceil(20).next_multiple_of(4)
}

/// Clients that keep what they have taken until this is dropped.
struct Clients(Child);

impl Clients {
    /// Takes it. Returns the bytes of memory that the server has of its own then.
    fn fill(server: &Server) -> (Self, usize) {
        let script = [PYTHON_SESSIONS, include_str!("../memory/states.py"), include_str!("filled.py")];
        let port = |protocol| server.address(protocol).port().to_string();
        let mut child = Command::new("python3")
            .arg("-c")
            .arg(script.concat())
            .args([server.pid().to_string(), port("imaps"), port("submissions")])
            .args([FIELDS.to_string(), RECIPIENTS.to_string(), PASSWORD.to_owned()])
            .args(USERS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        // It ends the clients if the test ends here.
        let clients = Self(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        let held = line.trim().parse().unwrap_or_else(|_| panic!("the clients failed: {line:?}"));
        (clients, held)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session with INBOX open, which has as many messages as this.
fn open_large_mailbox(server: &Server) -> LineClient {
    let mut client = login(server);
    let mut messages = 100;
    assert!(append_many(&mut client, b"Subject: a\r\n\r\n", messages).starts_with("t OK"));
    assert!(ask(&mut client, "SELECT INBOX").starts_with("t OK"));
    while messages < MESSAGES {
        let count = AT_ONCE.min(messages);
        let answer = ask(&mut client, &format!("COPY 1:{count} INBOX"));
        assert!(answer.starts_with("t OK"), "{answer}");
        assert!(ask(&mut client, "NOOP").starts_with("t OK"));
        messages += count;
    }
    client
}

/// Messages within a message, with addresses of two octets. Their summary takes the most memory.
fn addresses(len: usize) -> Vec<u8> {
    let part = format!("--b\r\nContent-Type: message/rfc822\r\n\r\nFrom: {}\r\n\r\n", "a,".repeat(10_000));
    let parts = part.repeat(len / part.len());
    format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}").into_bytes()
}

/// Mail comes to somebody else, who logs in and reads it.
fn neighbour_gets_mail(server: &Server) {
    let replies = server.hand_in("lmtp", "a@example.net", &[NEIGHBOUR], b"Subject: x\r\n\r\nhello\r\n");
    assert!(replies[0].starts_with("250"), "{replies:?}");
    let mut client = login_as(server, NEIGHBOUR);
    assert!(ask(&mut client, "SELECT INBOX").starts_with("t OK"));
    let (literals, answer) = client.literals("FETCH * BODY.PEEK[TEXT]").unwrap();
    assert!(answer.starts_with("t OK"), "{answer}");
    assert_eq!(literals[0].1, b"hello\r\n");
}

/// Bytes of memory that the server has of its own.
fn own_memory(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn over_half_of_the_worst_case_is_in_use_and_the_server_lives_in_a_group_of_that_size() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let kib = stated_worst_case(dir.path());
    let size = kib << 10;
    let Some(group) = group("filled", size) else { return };
    let server = start(&group, dir.path(), &settings(&format!("{kib} KiB")));
    println!("{:?}", server.logged("memory: at most"));
    for user in USERS[1..].iter().chain([&NEIGHBOUR]) {
        server.add_account(user, PASSWORD);
        // Its password is hashed once, and known to the server from then on.
        drop(login_as(&server, user));
    }
    let mut large = open_large_mailbox(&server);
    let before = own_memory(&server);
    let (clients, held) = Clients::fill(&server);
    println!("the server had {before} bytes of its own before, and {held} of {size} while all is held");
    // Pages of files are not among them.
    assert!(held > size / 2, "{held} bytes of {size} are in use");
    // Summaries are made in addition: the peak has them.
    for message in [addresses(MESSAGE_LEN), parts(MESSAGE_LEN)] {
        let replies = server.hand_in("lmtp", "a@example.net", &[NEIGHBOUR], &message);
        assert!(replies[0].starts_with("250"), "{replies:?}");
    }
    neighbour_gets_mail(&server);
    assert!(ask(&mut large, "NOOP").starts_with("t OK"), "the server was killed");
    match group.most() {
        Some(most) => {
            println!("the group had at most {most} of {size} bytes");
            assert!(most > size / 2, "the peak of the group was {most} of {size} bytes");
        }
        // Linux before 5.19 has no peak of a group of version 2.
        None => eprintln!("skipped: the peak of a control group cannot be read here"),
    }
    drop((clients, server));
}
