//! Debian's Postfix for `p.test`, configured and started by a test.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Aliases, Peer, Routes, await_greeting};

const PROGRAM: &str = "/usr/sbin/postfix";

/// A Postfix of our own for `p.test`, with its files in one directory. It ends with the test.
pub struct Postfix {
    master: Child,
    dir: PathBuf,
}

impl Postfix {
    /// Required programs; an error says what is missing.
    pub fn check() -> Result<(), String> {
        let is_there = Path::new(PROGRAM).exists();
        is_there.then_some(()).ok_or_else(|| format!("needs {PROGRAM} (Debian: apt-get install postfix)"))
    }

    /// Starts it, listening at `smtp`.
    pub fn start(dir: &Path, smtp: SocketAddr, routes: Routes<'_>, aliases: Aliases<'_>) -> Self {
        let owner = |what: &str| {
            let id = Command::new("id").args([what, "postfix"]).output().unwrap();
            String::from_utf8(id.stdout).unwrap().trim().parse::<u32>().unwrap()
        };
        let (uid, gid) = (owner("-u"), owner("-g"));
        for (name, is_postfixs) in [("", false), ("queue", false), ("data", true), ("mail", true)] {
            let path = dir.join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            if is_postfixs {
                chown(&path, Some(uid), Some(gid)).unwrap();
            }
        }
        let table = |pairs: Vec<String>| format!("inline:{{ {} }}", pairs.join(", "));
        let transports =
            routes.iter().map(|(to, host)| format!("{{ {to} = smtp:[{}]:{} }}", host.ip(), host.port()));
        let aliases = aliases.iter().map(|(from, to)| format!("{{ {from} = {to} }}"));
        let dir_text = dir.display();
        let main = format!(
            "compatibility_level = 3.6\nqueue_directory = {dir_text}/queue\ndata_directory = {dir_text}/data\n\
             maillog_file = {dir_text}/mail.log\nmaillog_file_prefixes = {dir_text}\nmyhostname = mail.p.test\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmynetworks = 127.0.0.1/32\nmydestination =\n\
             local_header_rewrite_clients =\nalias_maps =\nalias_database =\nlocal_recipient_maps =\nvirtual_alias_domains =\n\
             virtual_mailbox_domains = p.test\nvirtual_mailbox_base = {dir_text}/mail\n\
             virtual_mailbox_maps = inline:{{ {{ pia@p.test = pia/ }} }}\nvirtual_uid_maps = static:{uid}\n\
             virtual_gid_maps = static:{gid}\nvirtual_minimum_uid = 1\nvirtual_alias_maps = {}\n\
             transport_maps = {}\nsmtpd_relay_restrictions = permit_mynetworks, reject\n",
            table(aliases.collect()),
            table(transports.collect()),
        );
        std::fs::write(dir.join("main.cf"), main).unwrap();
        let services = [
            format!("{smtp} inet n - n - - smtpd"),
            "pickup unix n - n 60 1 pickup".to_owned(),
            "cleanup unix n - n - 0 cleanup".to_owned(),
            "qmgr unix n - n 300 1 qmgr".to_owned(),
            "rewrite unix - - n - - trivial-rewrite".to_owned(),
            "bounce unix - - n - 0 bounce".to_owned(),
            "defer unix - - n - 0 bounce".to_owned(),
            "trace unix - - n - 0 bounce".to_owned(),
            "verify unix - - n - 1 verify".to_owned(),
            "proxymap unix - - n - - proxymap".to_owned(),
            "smtp unix - - n - - smtp".to_owned(),
            "virtual unix - n n - - virtual".to_owned(),
            "error unix - - n - - error".to_owned(),
            "retry unix - - n - - error".to_owned(),
            "tlsmgr unix - - n 1000? 1 tlsmgr".to_owned(),
            "anvil unix - - n - 1 anvil".to_owned(),
            "scache unix - - n - 1 scache".to_owned(),
            "postlog unix-dgram n - n - 1 postlogd".to_owned(),
        ];
        std::fs::write(dir.join("master.cf"), services.join("\n") + "\n").unwrap();
        let master = Command::new(PROGRAM)
            .args(["-c", dir.to_str().unwrap(), "start-fg"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let postfix = Self { master, dir: dir.to_owned() };
        await_greeting(smtp, &postfix);
        postfix
    }
}

impl Peer for Postfix {
    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("mail.log")).unwrap_or_default()
    }

    fn maildir(&self) -> PathBuf {
        self.dir.join("mail/pia")
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // `start-fg` ends with its master, which ends the daemons.
        let stop = Command::new(PROGRAM).args(["-c", self.dir.to_str().unwrap(), "stop"]).output();
        if !stop.is_ok_and(|output| output.status.success()) {
            let _ = self.master.kill();
        }
        let _ = self.master.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
