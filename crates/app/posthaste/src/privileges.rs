//! Changes from root to the user that the server runs as.
//!
//! Root is needed for ports below 1024 and for nothing else. So the listeners of the start are
//! bound first, then the process becomes `user` permanently. Only then does it open the store and
//! read input of clients. Until then, connections wait in the backlog and nothing reads from them.
//!
//! Invariants: the change is made for all threads, or the start fails. No program that the
//! process runs later can regain privileges (`no_new_privs`).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use posthaste_net::SocketAccess;

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::private;

/// The user that the server becomes.
#[derive(Debug)]
pub struct Identity {
    user: String,
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

/// Makes the system give this process, and the programs that it runs, no more privileges.
///
/// Called before there are threads: each inherits it from the one that makes it.
pub fn refuse_new_ones() -> Result<()> {
    let (yes, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: with PR_SET_NO_NEW_PRIVS prctl reads four integers and no memory of ours, and changes
    // nothing but this one attribute of the calling thread.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, unused, unused, unused) };
    if set == 0 { Ok(()) } else { Err(Failure::Terminal(io::Error::last_os_error())) }
}

/// The access to the Unix socket of LMTP. A server that becomes another user gives the file to
/// that user, who must remove it at the end.
///
/// Called before there are threads.
pub fn socket_access(config: &Config, identity: Option<&Identity>) -> Result<SocketAccess> {
    let named = config.listen.lmtp_socket_group.as_str();
    let group = if named.is_empty() {
        identity.map(|identity| identity.gid)
    } else {
        let found = CString::new(named).ok().and_then(|name| lookup_group(&name));
        Some(found.ok_or_else(|| {
            Failure::Usage(format!(
                "`listen.lmtp_socket_group`: there is no group `{named}` on this machine; make it, or name another"
            ))
        })?)
    };
    Ok(SocketAccess {
        mode: config.listen.lmtp_socket_mode,
        owner: identity.map(|identity| identity.uid),
        group,
    })
}

impl Identity {
    /// The user and the group of the configuration, if the process changes to them. `None` if none
    /// is named, or if this is the user already. The error names the setting and the remedy.
    ///
    /// Called before there are threads.
    pub fn of(config: &Config) -> Result<Option<Self>> {
        if config.user.is_empty() {
            return if config.group.is_empty() {
                Ok(None)
            } else {
                Err(Failure::Usage("`group` goes with `user`: set both, or `user` alone".to_owned()))
            };
        }
        let user = config.user.clone();
        let missing = |key: &str, name: &str| {
            Failure::Usage(format!(
                "`{key}`: there is no {key} `{name}` on this machine; make it, or name another"
            ))
        };
        let name = CString::new(user.as_str()).map_err(|_| missing("user", &user))?;
        let (uid, own_gid) = lookup_user(&name).ok_or_else(|| missing("user", &user))?;
        let gid = if config.group.is_empty() {
            own_gid
        } else {
            let group = CString::new(config.group.as_str()).ok();
            group.and_then(|group| lookup_group(&group)).ok_or_else(|| missing("group", &config.group))?
        };
        let now = private::user();
        if uid == 0 {
            return Err(Failure::Usage(
                "`user` must not be root: name the user that owns the store".to_owned(),
            ));
        }
        if now == uid {
            return Ok(None);
        }
        if now != 0 {
            return Err(Failure::Usage(format!(
                "`user` is {user}, and only root can become another user; this is the user with id {now}: start as \
                 root or as {user}, or remove the setting"
            )));
        }
        Ok(Some(Self { user, name, uid, gid }))
    }

    /// Becomes this user in all threads, permanently.
    pub fn assume(&self) -> Result<()> {
        let failed = |what: &str| {
            let error = io::Error::last_os_error();
            Failure::Usage(format!("cannot become `user` {}: {what}: {error}", self.user))
        };
        // SAFETY: `name` is a string that ends in NUL and lives longer than the call, which copies
        // what it needs. The other calls take integers. All of them change the whole process: the C
        // library has every thread make the same system call.
        unsafe {
            // The order matters: without the user there is no permission to change groups.
            if libc::initgroups(self.name.as_ptr(), self.gid) != 0 {
                return Err(failed("initgroups"));
            }
            if libc::setgid(self.gid) != 0 {
                return Err(failed("setgid"));
            }
            if libc::setuid(self.uid) != 0 {
                return Err(failed("setuid"));
            }
            // As root, setuid changes the real, effective and saved user: there is no way back.
            if libc::setuid(0) == 0 {
                return Err(Failure::Usage(format!(
                    "`user` {} could become root again; this system keeps privileges that the server must not have",
                    self.user
                )));
            }
        }
        tracing::info!(user = self.user, uid = self.uid, gid = self.gid, "root's privileges were dropped");
        Ok(())
    }

    /// Whether the process, which runs as this user now, can use the data directory. A missing one
    /// is created; one of another user is refused.
    pub fn check_store(&self, dir: &Path) -> Result<()> {
        let Self { user, .. } = self;
        let shown = dir.display();
        match fs::metadata(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return fs::create_dir_all(dir).map_err(|error| {
                    Failure::Usage(format!(
                        "{shown} does not exist, and `user` {user} cannot make it: {error}; run `install -d -o \
                         {user} \
                         -m 700 {shown}` as root"
                    ))
                });
            }
            Err(error) => {
                return Err(Failure::Usage(format!(
                    "`user` {user} cannot reach {shown}: {error}; let that user search the directories above it"
                )));
            }
            Ok(meta) if meta.uid() != self.uid => return Err(self.foreign(dir, dir, meta.uid())),
            Ok(_) => {}
        }
        let entries = fs::read_dir(dir).map_err(|error| {
            Failure::Usage(format!(
                "`user` {user} cannot read {shown}: {error}; run `chmod u+rwx {shown}` as root"
            ))
        })?;
        for entry in entries {
            let entry = entry.map_err(Failure::Terminal)?;
            // A store that root has run on has files of root's.
            match entry.metadata() {
                Ok(meta) if meta.uid() != self.uid => {
                    return Err(self.foreign(dir, &entry.path(), meta.uid()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn foreign(&self, dir: &Path, found: &Path, owner: u32) -> Failure {
        let (user, found, dir) = (&self.user, found.display(), dir.display());
        Failure::Usage(format!(
            "{found} belongs to the user with id {owner}, and the server runs as `user` {user}; run `chown -R {user} \
             {dir}` as root, or set `user` to the owner"
        ))
    }
}

/// A user's id, and that of its primary group.
fn lookup_user(name: &CString) -> Option<(libc::uid_t, libc::gid_t)> {
    // SAFETY: `name` ends in NUL. The answer is null or points to memory of the C library that
    // stays as it is until the next such call. Both numbers are copied before, and there is no
    // other thread that could call it (see `Identity::of` and `socket_access`).
    unsafe { libc::getpwnam(name.as_ptr()).as_ref() }.map(|found| (found.pw_uid, found.pw_gid))
}

/// A group's id.
fn lookup_group(name: &CString) -> Option<libc::gid_t> {
    // SAFETY: as in `lookup_user`.
    unsafe { libc::getgrnam(name.as_ptr()).as_ref() }.map(|found| found.gr_gid)
}
