//! Debian's Cyrus under test. Its packages and Dovecot's cannot be installed together. So they are
//! unpacked beside the system, with libraries that they need and that are missing here, and started
//! from there. It has a configuration of its own, ports on loopback, and accepts any password.
//! Settings that differ from the defaults are those printed here.

use std::path::{Path, PathBuf};

use posthaste_load_results::ServerFacts;

use super::dovecot::{certificate, number_of};
use super::folder::open_to_all;
use super::instance::{Addresses, Instance, Setting, loopback, pinned};
use super::packages::{self, Wanted};
use super::process::{Child, free_port, output};
use super::user_folder::OpenFolder;

/// The user and group it runs as.
const USER: &str = "nobody";
/// The folder in which Debian installs the programs of Cyrus.
const INSTALLED: &str = "/usr/lib/cyrus/bin";
/// The POP3 server of Cyrus, and Debian's package of it, which installing Cyrus does not bring.
const POP3: &str = "pop3d";
const BESIDE: &[&str] = &["cyrus-pop3d"];
/// The environment in which Cyrus is measured: it sends no questions to DNS. It would look up the
/// name of each client that connects, and wait 5 s where nobody answers or answers are rationed.
/// With this, the resolver of libc tries no server at all.
const NO_QUESTIONS: &str = "RES_OPTIONS=attempts:0";
/// The files that it needs in its configuration folder.
const FOLDERS: &[&str] =
    &["backup", "db", "lock", "log", "msg", "proc", "ptclient", "quota", "socket", "sync", "user"];

/// Starts it.
pub fn start(setting: &Setting) -> Result<Instance, String> {
    // SAFETY: returns a number and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err("Cyrus is started by root only: its processes change users".into());
    }
    let folder = setting.folder;
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(fail)?;
    open_to_all(folder)?;
    let programs = Programs::find(folder)?;
    certificate(folder)?;
    folders(folder, (number_of("-u", USER)?, number_of("-g", USER)?))?;
    let ports = [free_port()?, free_port()?, free_port()?];
    let pop3 = match programs.has_pop3() {
        true => Some([free_port()?, free_port()?]),
        false => None,
    };
    let imapd = folder.join("imapd.conf");
    let imapd_text = imapd_settings(folder);
    let master_text = master_settings(&programs.bin, &imapd, ports, pop3);
    let master = folder.join("cyrus.conf");
    std::fs::write(&imapd, &imapd_text).map_err(fail)?;
    std::fs::write(&master, &master_text).map_err(fail)?;
    let mut words = pinned(setting.cpus);
    words.extend(["env".to_owned(), NO_QUESTIONS.to_owned()]);
    if !programs.libraries.is_empty() {
        words.push(format!("LD_LIBRARY_PATH={}", programs.libraries));
    }
    words.extend([
        programs.bin.join("master").display().to_string(),
        "-C".into(),
        imapd.display().to_string(),
    ]);
    words.extend(["-M".to_owned(), master.display().to_string()]);
    words.extend(["-p".to_owned(), folder.join("master.pid").display().to_string()]);
    let log = folder.join("cyrus.out");
    let mut child = Child::within("Cyrus", &words, &log, setting.memory_mb)?;
    let why = |e: String| format!("cyrus: {e}; see {} (its other messages are in syslog)", log.display());
    child.wait_for(ports[0]).map_err(why)?;
    let facts = ServerFacts {
        name: "Cyrus".into(),
        version: format!("Cyrus {}", programs.version),
        settings: format!(
            "{}\n\n# cyrus.conf\n{master_text}\n# imapd.conf (for a test: any password is \
             accepted)\n{imapd_text}",
            words.join(" ")
        ),
        ..ServerFacts::default()
    };
    Ok(Instance::of_child(addresses(ports, pop3)?, child, facts))
}

/// The folders of its user.
fn folders(folder: &Path, owner: (u32, u32)) -> Result<(), String> {
    let folder = OpenFolder::own(folder)?;
    for name in ["spool", "sieve"] {
        folder.folder_of(name, owner)?;
    }
    let configuration = folder.folder_of("conf", owner)?;
    FOLDERS.iter().try_for_each(|name| configuration.folder_of(name, owner).map(drop))
}

fn addresses([imap, imaps, lmtp]: [u16; 3], pop3: Option<[u16; 2]>) -> Result<Addresses, String> {
    Ok(Addresses {
        imap: Some(loopback("imap", imap)?),
        imaps: Some(loopback("imaps", imaps)?),
        pop3: pop3.map(|[port, _]| loopback("pop3", port)).transpose()?,
        pop3s: pop3.map(|[_, port]| loopback("pop3s", port)).transpose()?,
        deliver: Some(loopback("lmtp", lmtp)?),
        ..Addresses::default()
    })
}

fn imapd_settings(folder: &Path) -> String {
    let f = folder.display();
    format!(
        "configdirectory: {f}/conf
defaultpartition: default
partition-default: {f}/spool
sievedir: {f}/sieve
cyrus_user: {USER}
cyrus_group: nogroup
unixhierarchysep: yes
altnamespace: yes
virtdomains: userid
defaultdomain: example.org
allowplaintext: yes
sasl_mech_list: PLAIN
sasl_pwcheck_method: alwaystrue
autocreate_quota: 0
autocreate_post: yes
tls_server_cert: {f}/cert.pem
tls_server_key: {f}/key.pem
"
    )
}

/// Programs are named with their whole path and configuration: neither is inherited from the
/// master.
fn master_settings(
    bin: &Path,
    imapd: &Path,
    [imap, imaps, lmtp]: [u16; 3],
    pop3: Option<[u16; 2]>,
) -> String {
    let command = |name: &str| format!("{}/{name} -C {}", bin.display(), imapd.display());
    let pop3d = command("pop3d");
    let (recover, idled, imapd, lmtpd) =
        (command("ctl_cyrusdb"), command("idled"), command("imapd"), command("lmtpd"));
    let pop3 = pop3.map_or_else(String::new, |[plain, tls]| {
        format!(
            "  pop3 cmd=\"{pop3d} -U 30\" listen=\"127.0.0.1:{plain}\" prefork=0 maxchild=2000
  pop3s cmd=\"{pop3d} -s -U 30\" listen=\"127.0.0.1:{tls}\" prefork=0 maxchild=2000\n"
        )
    });
    format!(
        "START {{
  recover cmd=\"{recover} -r\"
  idled cmd=\"{idled}\"
}}
SERVICES {{
  imap cmd=\"{imapd} -U 30\" listen=\"127.0.0.1:{imap}\" prefork=0 maxchild=2000
  imaps cmd=\"{imapd} -s -U 30\" listen=\"127.0.0.1:{imaps}\" prefork=0 maxchild=2000
  lmtp cmd=\"{lmtpd} -a\" listen=\"127.0.0.1:{lmtp}\" prefork=0 maxchild=200
{pop3}}}
EVENTS {{
  checkpoint cmd=\"{recover} -c\" period=30
}}
"
    )
}

/// Whether it is installed, so that its packages are not unpacked.
fn is_installed() -> bool {
    let installed = Path::new(INSTALLED);
    installed.join("imapd").exists() && installed.join("master").exists()
}

/// Whether it is installed without its POP3 server.
pub(super) fn lacks_pop3() -> bool {
    is_installed() && !Path::new(INSTALLED).join(POP3).exists()
}

/// Cyrus' programs: those installed, or those of packages unpacked below the study's folder.
struct Programs {
    bin: PathBuf,
    /// Value of LD_LIBRARY_PATH with which they find their libraries.
    libraries: String,
    version: String,
}

impl Programs {
    fn find(folder: &Path) -> Result<Self, String> {
        if is_installed() {
            return Self::of(INSTALLED.into(), String::new());
        }
        let root = folder.join("packages/root");
        let bin = root.join("usr/lib/cyrus/bin");
        if !bin.join("imapd").exists() || !bin.join(POP3).exists() {
            packages::unpack(Wanted { name: "cyrus-imapd", kind: "cyrus-", beside: BESIDE }, &root).map_err(
                |e| {
                    format!(
                        "Cyrus is not installed and cannot be unpacked from Debian's packages ({e}); start it yourself and \
                         name it by --server Cyrus=imap://HOST:PORT,lmtp://HOST:PORT,pid=N"
                    )
                },
            )?;
        }
        let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
        let libraries = ["usr/lib", "lib"].map(|l| root.join(l).join(&triplet).display().to_string());
        Self::of(bin, libraries.join(":"))
    }

    fn has_pop3(&self) -> bool {
        self.bin.join(POP3).exists()
    }

    fn of(bin: PathBuf, libraries: String) -> Result<Self, String> {
        let environment = format!("LD_LIBRARY_PATH={libraries}");
        let said = output(&["env", &environment, &bin.join("master").display().to_string(), "-V"])?;
        let version = said.strip_prefix("cyrus-imapd ").unwrap_or(&said).to_owned();
        Ok(Self { bin, libraries, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_a_folder_of_its_user_is_not_followed() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // SAFETY: these return numbers and cannot fail.
        let own = unsafe { (libc::geteuid(), libc::getegid()) };
        folders(work.path(), own).unwrap();
        folders(work.path(), own).unwrap();
        let db = work.path().join("conf/db");
        std::fs::remove_dir(&db).unwrap();
        std::os::unix::fs::symlink(other.path(), &db).unwrap();
        let said = folders(work.path(), own).unwrap_err();
        assert!(said.contains("conf/db: ") && said.contains("--work"), "{said}");
    }

    #[test]
    fn every_program_gets_its_configuration() {
        let text = |pop3| master_settings(Path::new("/p/bin"), Path::new("/s/imapd.conf"), [1, 2, 3], pop3);
        let (without, with) = (text(None), text(Some([4, 5])));
        assert_eq!(without.matches("cmd=").count(), 6);
        let commands: Vec<&str> = with.lines().filter(|l| l.contains("cmd=")).collect();
        assert_eq!(commands.len(), 8);
        assert!(with.contains("pop3d -C /s/imapd.conf -s -U 30\" listen=\"127.0.0.1:5\""), "{with}");
        for line in commands {
            assert!(line.contains("cmd=\"/p/bin/") && line.contains(" -C /s/imapd.conf"), "{line}");
        }
    }
}
