//! Debian's Courier IMAP under test. Its packages and Dovecot's cannot be installed together, and
//! its programs name their files by whole paths. So the packages are unpacked below the study's
//! folder and laid over `/usr` and `/etc` for its own processes alone (a mount namespace). Settings
//! that differ from the defaults are those printed here.

use std::path::{Path, PathBuf};

use posthaste_load_drive::Accounts;
use posthaste_load_results::ServerFacts;

use super::dovecot::{certificate, number_of};
use super::folder::{make_own, open_to_all};
use super::instance::{Addresses, Instance, Setting, loopback, pinned};
use super::packages;
use super::process::{Child, free_port, output};
use super::user_folder::OpenFolder;

/// The user and group of the mail.
const USER: &str = "nobody";
/// Packages that installing it does not bring: accounts by a program, and POP3.
const BESIDE: &[&str] = &["courier-authlib-pipe", "courier-pop"];
/// The POP3 server of Courier, which checks logins and then starts the one of a session.
const POP3_LOGIN: &str = "/usr/lib/courier/courier/courierpop3login";
const POP3: &str = "/usr/lib/courier/courier/courierpop3d";
/// Connections it accepts, in all and of one address. Its own limits are 40 and 20.
const CONNECTIONS_MAX: u32 = 2000;

/// Starts it.
pub fn start(setting: &Setting) -> Result<Instance, String> {
    // SAFETY: returns a number and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err("Courier is started by root only: its processes change users".into());
    }
    let folder = setting.folder;
    let root = prepare(setting)?;
    let ports = [free_port()?, free_port()?, free_port()?, free_port()?];
    let script = script(folder, ports);
    write(&folder.join("courier.sh"), &script, 0o644)?;
    let mut words = pinned(setting.cpus);
    words.extend(["unshare", "-m", "sh"].map(str::to_owned));
    words.push(folder.join("courier.sh").display().to_string());
    let log = folder.join("courier.out");
    let mut child = Child::within("Courier", &words, &log, setting.memory_mb)?;
    let why = |e: String| format!("courier: {e}; see {}", log.display());
    ports.iter().try_for_each(|port| child.wait_for(*port)).map_err(why)?;
    let [imap, imaps, pop3, pop3s] = ports;
    let at = Addresses {
        imap: Some(loopback("imap", imap)?),
        imaps: Some(loopback("imaps", imaps)?),
        pop3: Some(loopback("pop3", pop3)?),
        pop3s: Some(loopback("pop3s", pop3s)?),
        ..Addresses::default()
    };
    let facts = ServerFacts {
        name: "Courier".into(),
        version: format!("Courier IMAP {}", version(&root)),
        settings: format!("{}\n\n# courier.sh\n{script}\n# authdaemonrc\n{AUTHDAEMONRC}", words.join(" ")),
        ..ServerFacts::default()
    };
    Ok(Instance::of_child(at, child, facts))
}

/// Unpacks Courier, makes the accounts' folders and writes its files. The folder of its packages.
fn prepare(setting: &Setting) -> Result<PathBuf, String> {
    let folder = setting.folder;
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(fail)?;
    open_to_all(folder)?;
    let root = folder.join("packages/root");
    if !["/usr/bin/imapd", POP3].iter().all(|path| within(&root, path).exists()) {
        packages::unpack(packages::Wanted { name: "courier-imap", kind: "courier-", beside: BESIDE }, &root)
            .map_err(|e| {
                format!(
                    "Courier cannot be unpacked from Debian's packages ({e}); start it yourself and name it by --server \
                     Courier=imap://HOST:PORT,pid=N"
                )
            })?;
    }
    let owner = (number_of("-u", USER)?, number_of("-g", USER)?);
    setting.accounts.iter().try_for_each(|accounts| maildirs(folder, accounts, owner))?;
    certificate(folder)?;
    let etc = folder.join("etc/courier");
    std::fs::create_dir_all(&etc).map_err(fail)?;
    let both = ["cert.pem", "key.pem"].map(|name| std::fs::read_to_string(folder.join(name)));
    let [certificate, key] = both;
    write(&etc.join("both.pem"), &format!("{}{}", certificate.map_err(fail)?, key.map_err(fail)?), 0o600)?;
    write(&etc.join("authdaemonrc"), AUTHDAEMONRC, 0o644)?;
    write(&etc.join("authProg"), &accounts_program(folder, owner), 0o755)?;
    Ok(root)
}

/// A file of the packages by its path when they are installed.
fn within(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Accounts are looked up by a program, so that any of them exists.
const AUTHDAEMONRC: &str = "authmodulelist=\"authpipe\"
authmodulelistorig=\"authpipe\"
daemons=5
authdaemonvar=/run/courier/authdaemon
DEBUG_LOGIN=0
DEFAULTOPTIONS=\"\"
LOGGEROPTS=\"\"
";

/// Answers for every account, with any password. It starts no other program.
fn accounts_program(folder: &Path, (user, group): (u32, u32)) -> String {
    format!(
        "#!/bin/sh
while read -r word second third user; do
  case $word in
    PRE) ;;
    AUTH) read -r service; read -r kind; read -r user; read -r secret ;;
    *) printf 'FAIL\\n'; continue ;;
  esac
  home={}/mail/$user
  printf 'UID={user}\\nGID={group}\\nHOME=%s\\nADDRESS=%s\\nMAILDIR=%s/Maildir\\n.\\n' \"$home\" \"$user\" \"$home\"
done
",
        folder.display()
    )
}

/// Lays the packages over the system, starts the daemon of accounts and the listeners, and ends all
/// of them when it is ended: listeners have process groups of their own.
fn script(folder: &Path, [imap, imaps, pop3, pop3s]: [u16; 4]) -> String {
    let (f, root) = (folder.display(), folder.join("packages/root"));
    let listener = format!(
        "/usr/sbin/couriertcpd -address=127.0.0.1 -maxprocs={CONNECTIONS_MAX} -maxperip={CONNECTIONS_MAX} $TCPDOPTS"
    );
    let session = "/usr/lib/courier/courier/imaplogin /usr/bin/imapd Maildir";
    let maildrop = format!("{POP3_LOGIN} {POP3} Maildir");
    let tls = "/usr/bin/couriertls -server -tcpd";
    format!(
        "set -e
mount -t overlay overlay -o lowerdir={root}/usr:/usr /usr
mount -t overlay overlay -o lowerdir={f}/etc:/etc /etc
mount -t tmpfs tmpfs /run
mkdir -p /run/courier/authdaemon
export LD_LIBRARY_PATH=/usr/lib:/usr/lib/courier-authlib
set -a
. {root}/etc/courier/pop3d
. {root}/etc/courier/pop3d-ssl
. {root}/etc/courier/imapd
. {root}/etc/courier/imapd-ssl
. /etc/courier/authdaemonrc
TLS_CERTFILE=/etc/courier/both.pem
unset TLS_CACHEFILE TLS_DHPARAMS
/usr/lib/courier/courier-authlib/authdaemond &
all=$!
trap 'kill $all; wait; exit' TERM
while [ ! -S /run/courier/authdaemon/socket ]; do sleep 0.1; done
{listener} {imap} {session} &
all=\"$all $!\"
IMAP_TLS=1 {listener} {imaps} {tls} {session} &
all=\"$all $!\"
{listener} {pop3} {maildrop} &
all=\"$all $!\"
POP3_TLS=1 {listener} {pop3s} {tls} {maildrop} &
all=\"$all $!\"
wait
",
        root = root.display()
    )
}

/// A Maildir for each account. Courier does not make them.
fn maildirs(folder: &Path, accounts: &Accounts, owner: (u32, u32)) -> Result<(), String> {
    let mail = folder.join("mail");
    make_own(&mail)?;
    let mail = OpenFolder::own(&mail)?;
    for account in 0..accounts.count() {
        let maildir = mail.folder_of(&accounts.name(account), owner)?.folder_of("Maildir", owner)?;
        for name in ["cur", "new", "tmp"] {
            maildir.folder_of(name, owner)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::write(path, text).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fail)
}

/// The version in the name of the package.
fn version(root: &Path) -> String {
    let package = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.strip_prefix("courier-imap_")?.split('_').next().map(str::to_owned)
    };
    let packages: PathBuf = root.parent().unwrap_or(root).to_owned();
    let found = std::fs::read_dir(packages).into_iter().flatten().flatten().find_map(package);
    found
        .or_else(|| output(&["dpkg-query", "-f", "${Version}", "-W", "courier-imap"]).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_ends_with_the_script() {
        let text = script(Path::new("/s"), [1, 2, 3, 4]);
        let started = text.lines().filter(|line| line.ends_with(" &")).count();
        assert_eq!(started, 5);
        assert_eq!(text.matches("all=").count(), started);
        assert!(text.contains("lowerdir=/s/packages/root/usr:/usr /usr"), "{text}");
    }

    #[test]
    fn the_program_of_accounts_answers_for_any_of_them() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("program");
        write(&path, &accounts_program(Path::new("/s"), (7, 8)), 0o755).unwrap();
        let mut child = std::process::Command::new("sh")
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        use std::io::Write as _;
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"PRE . imap ana@example.org\nENUMERATE\n").unwrap();
        input.write_all(b"AUTH 31\nimap\nlogin\nben@example.org\nsecret\n").unwrap();
        drop(input);
        let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let answer = |who: &str| {
            format!("UID=7\nGID=8\nHOME=/s/mail/{who}\nADDRESS={who}\nMAILDIR=/s/mail/{who}/Maildir\n.\n")
        };
        assert_eq!(said, format!("{}FAIL\n{}", answer("ana@example.org"), answer("ben@example.org")));
    }

    #[test]
    fn each_account_has_its_maildir() {
        let work = tempfile::tempdir().unwrap();
        // SAFETY: these return numbers and cannot fail.
        let own = unsafe { (libc::geteuid(), libc::getegid()) };
        let accounts = Accounts::parse("u{0..1}@example.org").unwrap();
        maildirs(work.path(), &accounts, own).unwrap();
        for name in ["u0@example.org", "u1@example.org"] {
            assert!(work.path().join("mail").join(name).join("Maildir/new").is_dir(), "{name}");
        }
        // At the next start it is there.
        maildirs(work.path(), &accounts, own).unwrap();
    }

    #[test]
    fn a_link_in_place_of_a_maildir_is_not_followed() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // SAFETY: these return numbers and cannot fail.
        let own = unsafe { (libc::geteuid(), libc::getegid()) };
        let accounts = Accounts::parse("u{0..0}@example.org").unwrap();
        let home = work.path().join("mail/u0@example.org");
        std::fs::create_dir_all(&home).unwrap();
        std::os::unix::fs::symlink(other.path(), home.join("Maildir")).unwrap();
        let said = maildirs(work.path(), &accounts, own).unwrap_err();
        assert!(said.contains("u0@example.org/Maildir: ") && said.contains("--work"), "{said}");
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
    }
}
