//! Both interpreters, and what each wants done, in one form: sorted lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_sieve::{Capabilities, Context, Effect, Moment, Script};
use tempfile::TempDir;

use crate::examples::{FROM, TO};

/// The judge with its folder.
pub struct Judge {
    folder: TempDir,
    program: PathBuf,
}

impl Judge {
    /// `None` if it is not installed.
    pub fn found() -> Option<Self> {
        let program = ["/usr/bin/sieve-test", "/usr/local/bin/sieve-test"].map(PathBuf::from);
        let program = program.into_iter().find(|program| program.exists())?;
        let folder = TempDir::new().expect("the folder and the program of the judge can be used");
        let home = folder.path().join("home");
        std::fs::create_dir(&home).expect("the folder and the program of the judge can be used");
        let user = format!("mail_uid = {}\nmail_gid = {}\n", owner(&home).0, owner(&home).1);
        // Dovecot reads mail as root never; then the folder is nobody's.
        let user = match owner(&home).0 {
            0 => {
                open_to_all(folder.path());
                std::os::unix::fs::chown(&home, Some(65_534), Some(65_534))
                    .expect("the folder and the program of the judge can be used");
                "mail_uid = 65534\nmail_gid = 65534\n".to_string()
            }
            _ => user,
        };
        let home = home.display();
        let config = format!(
            "{user}mail_home = {home}\nmail_location = maildir:{home}/mail\nlog_path = /dev/stderr\n\
             postmaster_address = postmaster@example.com\nfirst_valid_uid = 1\n\
             plugin {{\n  sieve_extensions = +editheader +vacation-seconds\n  sieve_max_actions = 64\n}}\n"
        );
        std::fs::write(folder.path().join("dovecot.conf"), config)
            .expect("the folder and the program of the judge can be used");
        Some(Judge { folder, program })
    }

    /// The judge's actions.
    pub fn run(&self, script: &str, message: &str) -> Vec<String> {
        let path = |name: &str| self.folder.path().join(name);
        std::fs::write(path("script.sieve"), script)
            .expect("the folder and the program of the judge can be used");
        std::fs::write(path("message.eml"), message)
            .expect("the folder and the program of the judge can be used");
        // A compiled script beside the source would be used again.
        let _ = std::fs::remove_file(path("script.svbin"));
        let made = Command::new(&self.program)
            .arg("-c")
            .arg(path("dovecot.conf"))
            .args(["-f", FROM, "-a", TO, "-r", TO])
            .args([path("script.sieve"), path("message.eml")])
            .env("TZ", "UTC")
            .output()
            .expect("the folder and the program of the judge can be used");
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        let errors = String::from_utf8_lossy(&made.stderr);
        match made.status.code() {
            Some(0) => lines(&said),
            Some(1) => vec!["error".into()],
            Some(_) if errors.contains("unknown Sieve capability") => vec!["unknown extension".into()],
            code => panic!("sieve-test ended with {code:?}:\n{errors}\n{script}"),
        }
    }
}

fn owner(path: &Path) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).expect("the folder and the program of the judge can be used");
    (metadata.uid(), metadata.gid())
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .expect("the folder and the program of the judge can be used");
}

/// The actions in the judge's output.
fn lines(said: &str) -> Vec<String> {
    let mut made: Vec<String> = Vec::new();
    for line in said.lines() {
        if let Some(action) = line.strip_prefix(" * ") {
            if let Some(mailbox) = action.strip_prefix("store message in folder: ") {
                made.push(format!("store {mailbox}"));
            } else if let Some(address) = action.strip_prefix("redirect message to: <") {
                made.push(format!("redirect {}", address.trim_end_matches('>')));
            } else if let Some(reason) = action.strip_prefix("reject message with reason: ") {
                made.push(format!("reject {reason}"));
            } else if action.starts_with("send vacation message") {
                made.push("vacation".into());
            } else if action.starts_with("send notification") {
                made.push("notify".into());
            } else if action != "discard" && action != "track duplicate" {
                panic!("an action that this test does not know: {action}");
            }
        } else if let Some(flags) = line.trim_start().strip_prefix("+ add IMAP flags:")
            && let Some(last) = made.last_mut()
        {
            let mut flags: Vec<_> = flags.split_whitespace().map(str::to_lowercase).collect();
            flags.sort();
            last.extend(flags.iter().flat_map(|flag| [" ", flag]));
        }
    }
    made.sort();
    made
}

struct World(Vec<String>);

impl Context for World {
    fn envelope_from(&self) -> &str {
        FROM
    }
    fn envelope_to(&self) -> &str {
        TO
    }
    fn now(&self) -> Moment {
        Moment { unix_s: 951_893_109, zone_minutes: 0 }
    }
    fn own_addresses(&self) -> &[String] {
        &self.0
    }
}

/// Our actions.
pub fn ours(script: &str, message: &str) -> Vec<String> {
    let compiled =
        Script::compile(script, &Capabilities::default()).unwrap_or_else(|e| panic!("{script}\n{e}"));
    let outcome = compiled.run(message.as_bytes(), &World(vec![TO.into()]));
    if outcome.error.is_some() {
        return vec!["error".into()];
    }
    let mut made: Vec<String> = outcome.effects.iter().filter_map(line).collect();
    // The judge prints a reply before it looks whether one may be sent.
    made.extend(outcome.notes.iter().filter(|note| note.contains("vacation")).map(|_| "vacation".into()));
    made.sort();
    made
}

fn line(effect: &Effect) -> Option<String> {
    let stored = |mailbox: &str, flags: &[String]| {
        let mut flags: Vec<_> = flags.iter().map(|flag| flag.to_lowercase()).collect();
        flags.sort();
        let flags: String = flags.iter().flat_map(|flag| [" ", flag]).collect();
        Some(format!("store {mailbox}{flags}"))
    };
    match effect {
        Effect::Keep { flags, .. } => stored("INBOX", flags),
        Effect::FileInto { target, .. } => stored(&target.mailbox, &target.flags),
        Effect::Redirect { address, .. } => Some(format!("redirect {address}")),
        Effect::Reject { reason, .. } => Some(format!("reject {reason}")),
        Effect::Vacation(_) => Some("vacation".into()),
        Effect::Notify(_) => Some("notify".into()),
        Effect::Discard | Effect::Remember { .. } => None,
    }
}
