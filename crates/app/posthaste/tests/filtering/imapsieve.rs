//! Scripts that run when messages are added to a mailbox or their flags change (RFC 6785).

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct_horse";

fn server() -> Server {
    served(ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")))
}

fn served(mut server: ServerBuilder) -> Server {
    for protocol in ["imap", "sieve"] {
        server = server.listen(&format!("{protocol}=127.0.0.1:0"));
    }
    let server = server.start();
    server.add_account(USER, PASSWORD);
    server
}

fn put(server: &Server, name: &str, text: &str) {
    let done = server.command(&["sieve", "put", USER, name, "-"], text);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn logged_in(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} {PASSWORD}")).unwrap();
    client
}

/// Names the script of a mailbox.
fn script_of(client: &mut LineClient, mailbox: &str, name: &str) {
    let entry = format!("SETMETADATA {mailbox} (/shared/imapsieve/script \"{name}\")");
    client.imap(&entry).unwrap();
}

fn append(client: &mut LineClient, mailbox: &str, subject: &str) {
    let text = format!("From: bo@example.net\r\nSubject: {subject}\r\n\r\nwords\r\n");
    client.imap(&format!("APPEND {mailbox} (\\Flagged) {{{}+}}\r\n{text}", text.len())).unwrap();
}

/// Subject and flags of each message of a mailbox.
fn messages(client: &mut LineClient, mailbox: &str) -> Vec<String> {
    client.imap(&format!("EXAMINE {mailbox}")).unwrap();
    let fetched = client.imap("FETCH 1:* (FLAGS BODY.PEEK[HEADER.FIELDS (SUBJECT)])").unwrap();
    let mut found: Vec<String> = Vec::new();
    for line in fetched {
        if let Some((_, rest)) = line.split_once("FLAGS (") {
            let flags = rest.split_once(')').unwrap().0.split(' ').filter(|flag| *flag != "\\Recent");
            found.push(flags.collect::<Vec<_>>().join(" "));
        } else if let Some(subject) = line.strip_prefix("Subject: ") {
            found.last_mut().unwrap().insert_str(0, &format!("{subject}: "));
        }
    }
    client.imap("UNSELECT").unwrap();
    found
}

/// Marks what happened: the items of the environment as keywords.
const MARK: &str = r#"require ["imapsieve", "environment", "variables", "imap4flags"];
if environment :matches "imap.cause" "*" { addflag "cause-${1}"; }
if environment :matches "imap.mailbox" "*" { addflag "in-${1}"; }
if environment :is "imap.user" "ana@example.org" { addflag "by-ana"; }
if environment :contains "imap.changedflags" "\\Seen" { addflag "seen-changed"; }
if anyof (not environment :is "location" "MS", not environment :is "phase" "post") { addflag "wrong"; }
"#;

#[test]
fn a_script_runs_for_what_happens_in_its_mailbox() {
    let server = server();
    put(&server, "mark", MARK);
    let mut client = logged_in(&server);
    let capabilities = client.imap("CAPABILITY").unwrap();
    assert!(capabilities[0].contains(" IMAPSIEVE=sieve://"), "{capabilities:?}");
    for mailbox in ["Plain", "Marked"] {
        client.imap(&format!("CREATE {mailbox}")).unwrap();
    }
    append(&mut client, "Marked", "before");
    script_of(&mut client, "Marked", "mark");
    append(&mut client, "Marked", "appended");
    append(&mut client, "Plain", "plain");
    assert_eq!(
        messages(&mut client, "Marked"),
        ["before: \\Flagged", "appended: \\Flagged cause-APPEND in-Marked by-ana"]
    );
    assert_eq!(messages(&mut client, "Plain"), ["plain: \\Flagged"]);
    client.imap("SELECT Plain").unwrap();
    client.imap("COPY 1 Marked").unwrap();
    client.imap("STORE 1 +FLAGS (\\Seen)").unwrap();
    client.imap("MOVE 1 Marked").unwrap();
    client.imap("UNSELECT").unwrap();
    assert_eq!(
        messages(&mut client, "Marked")[2..],
        [
            "plain: \\Flagged in-Marked by-ana cause-COPY",
            "plain: \\Flagged \\Seen in-Marked by-ana cause-COPY"
        ]
    );
    // The change of the script is reported with the one of the command.
    client.imap("SELECT Marked").unwrap();
    let changed = client.imap("STORE 1 +FLAGS (\\Seen)").unwrap();
    assert!(
        changed.iter().any(|line| line.contains("seen-changed") && line.contains("cause-FLAG")),
        "{changed:?}"
    );
    client.imap("UNSELECT").unwrap();
    // Without the annotation nothing runs.
    client.imap("SETMETADATA Marked (/shared/imapsieve/script NIL)").unwrap();
    append(&mut client, "Marked", "after");
    assert_eq!(messages(&mut client, "Marked")[4], "after: \\Flagged");
}

#[test]
fn actions_leave_copy_and_take_away() {
    let server = server();
    put(
        &server,
        "sort",
        "require [\"imapsieve\", \"fileinto\", \"copy\", \"mailbox\", \"editheader\", \"reject\"];\n\
         if header :is \"subject\" \"file\" { fileinto :create \"Filed\"; }\n\
         elsif header :is \"subject\" \"copy\" { fileinto :copy :create \"Filed\"; }\n\
         elsif header :is \"subject\" \"here\" { fileinto \"Sorted\"; }\n\
         elsif header :is \"subject\" \"away\" { discard; }\n\
         elsif header :is \"subject\" \"edit\" { deleteheader \"subject\"; addheader \"Subject\" \"edited\"; }\n\
         elsif header :is \"subject\" \"answer\" { reject \"no\"; }\n",
    );
    let mut client = logged_in(&server);
    client.imap("CREATE Sorted").unwrap();
    script_of(&mut client, "Sorted", "sort");
    for subject in ["file", "copy", "here", "away", "edit", "answer", "other"] {
        append(&mut client, "Sorted", subject);
    }
    assert_eq!(
        messages(&mut client, "Sorted"),
        [
            "file: \\Flagged \\Deleted",
            "copy: \\Flagged",
            "here: \\Flagged",
            "away: \\Flagged \\Deleted",
            "edit: \\Flagged \\Deleted",
            "edited: \\Flagged",
            // A script that fails changes nothing.
            "answer: \\Flagged",
            "other: \\Flagged",
        ]
    );
    // A message that a script files is no event: `Filed` has the same script.
    script_of(&mut client, "Filed", "sort");
    append(&mut client, "Sorted", "file");
    assert_eq!(messages(&mut client, "Filed"), ["file: \\Flagged", "copy: \\Flagged", "file: \\Flagged"]);
}

#[test]
fn a_script_that_is_missing_or_wrong_hinders_nothing() {
    let server = server();
    let mut client = logged_in(&server);
    client.imap("CREATE Marked").unwrap();
    script_of(&mut client, "Marked", "nowhere");
    append(&mut client, "Marked", "first");
    // A script that is stored later, or changed, is the one that runs.
    put(&server, "nowhere", "require \"imap4flags\";\naddflag \"one\";\n");
    append(&mut client, "Marked", "second");
    put(&server, "nowhere", "require \"imap4flags\";\naddflag \"two\";\n");
    append(&mut client, "Marked", "third");
    assert_eq!(
        messages(&mut client, "Marked"),
        ["first: \\Flagged", "second: \\Flagged one", "third: \\Flagged two"]
    );
    // New mail runs the active script, and not that of a mailbox.
    let done = server.command(&["sieve", "activate", USER, "nowhere"], "");
    assert!(done.status.success());
    append(&mut client, "INBOX", "fourth");
    assert_eq!(messages(&mut client, "INBOX"), ["fourth: \\Flagged"]);
}

/// The owner's script runs for the changes of others in a mailbox.
#[test]
fn the_owners_script_runs_for_others() {
    let server = server();
    server.add_account("bob@example.org", PASSWORD);
    put(
        &server,
        "mark",
        "require [\"environment\", \"imap4flags\"];\nif environment :is \"imap.user\" \"bob@example.org\" { addflag \"by-bob\"; }\n",
    );
    let mut ana = logged_in(&server);
    ana.imap("CREATE Marked").unwrap();
    script_of(&mut ana, "Marked", "mark");
    ana.imap("SETACL Marked bob@example.org lrsi").unwrap();
    let mut bob = LineClient::connect(server.address("imap")).unwrap();
    bob.line().unwrap();
    bob.imap(&format!("LOGIN bob@example.org {PASSWORD}")).unwrap();
    append(&mut bob, "\"Other Users/ana@example.org/Marked\"", "hello");
    assert!(messages(&mut ana, "Marked")[0].ends_with("by-bob"));
}

/// RFC 6785 §3.4: a redirect is a submission. What is refused stays.
#[test]
fn a_script_sends_no_mail_that_its_user_could_not_submit() {
    let server = server();
    for account in ["bob@example.org", "boss@b.test"] {
        server.add_account(account, PASSWORD);
    }
    put(&server, "forward", "redirect \"bob@example.org\";");
    let mut client = logged_in(&server);
    client.imap("CREATE Forward").unwrap();
    script_of(&mut client, "Forward", "forward");
    for author in ["boss@b.test", "far@c.test", USER] {
        let text = format!("From: {author}\r\nSubject: {author}\r\n\r\nwords\r\n");
        client.imap(&format!("APPEND Forward {{{}+}}\r\n{text}", text.len())).unwrap();
    }
    assert_eq!(
        messages(&mut client, "Forward"),
        ["boss@b.test: ", "far@c.test: ", "ana@example.org: \\Deleted"]
    );
    let mail = server.mail("bob@example.org", PASSWORD, "INBOX", 1);
    assert!(String::from_utf8_lossy(&mail[0]).contains("\r\nFrom: ana@example.org\r\n"));
    server.logged_times("author or sender than ana@example.org", 2);
}

/// The script would run for each of thousands of messages. The account has two connections, so a
/// third login shows that the session of the client that left has ended.
#[test]
fn a_client_that_leaves_during_a_store_ends_the_runs_of_its_script() {
    const DOUBLINGS: u32 = 14;
    let dir = tempfile::tempdir().unwrap();
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"));
    let server =
        served(builder.settings(&dir.path().join("settings.toml"), "[limits]\naccount_connections = 2\n"));
    put(&server, "mark", "require [\"imapsieve\", \"imap4flags\"]; addflag \"ran\";");
    let (mut client, mut other) = (logged_in(&server), logged_in(&server));
    client.imap("CREATE Marked").unwrap();
    append(&mut client, "Marked", "first");
    client.imap("SELECT Marked").unwrap();
    for _ in 0..DOUBLINGS {
        client.imap("COPY 1:* Marked").unwrap();
    }
    script_of(&mut client, "Marked", "mark");
    other.imap("SELECT Marked").unwrap();
    client.send(b"s STORE 1:* +FLAGS.SILENT (\\Seen)\r\n").unwrap();
    let mut ran = || {
        let found = other.imap("UID SEARCH RETURN (COUNT) KEYWORD ran").unwrap();
        let count = found.iter().find_map(|line| line.split_once(" COUNT ")).unwrap().1;
        count.parse::<u32>().unwrap()
    };
    while ran() == 0 {}
    drop(client);
    loop {
        let mut third = LineClient::connect(server.address("imap")).unwrap();
        third.line().unwrap();
        let login = third.imap(&format!("LOGIN {USER} {PASSWORD}")).unwrap();
        if login.last().unwrap().starts_with("t OK") {
            break;
        }
    }
    let ran = ran();
    assert!(ran < 1 << DOUBLINGS, "{ran} messages");
}
