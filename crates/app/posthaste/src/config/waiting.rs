//! Settings that a server reads only when it starts.

use super::{Config, Limits, Login};

impl Config {
    /// Settings that a server reads only when it starts, and that differ from those of its start.
    pub fn keys_that_wait(&self, started: &Self) -> Vec<&'static str> {
        let (limits, had) = (&self.limits, &started.limits);
        let all = [
            ("data", self.data != started.data),
            ("engine", self.engine != started.engine),
            ("bodies", self.bodies != started.bodies),
            ("hostname", self.hostname != started.hostname),
            ("user, group", (&self.user, &self.group) != (&started.user, &started.group)),
            ("s3", self.s3 != started.s3),
            (
                "login.argon2_memory, login.argon2_passes, login.scram_iterations, login.scram_sha1",
                self.login.policy() != started.login.policy(),
            ),
            ("listen.metrics", self.listen.metrics != started.listen.metrics),
            ("relay", self.relay != started.relay),
            ("reports", self.reports != started.reports),
            ("retention", self.retention != started.retention),
            ("limits.memory", limits.memory != had.memory),
            ("limits.message_size", limits.message_size != had.message_size),
            ("limits.incoming_bytes", limits.incoming_bytes != had.incoming_bytes),
            ("limits.reading_bytes", limits.reading_bytes != had.reading_bytes),
            ("limits.summary_bytes", limits.summary_bytes != had.summary_bytes),
            ("limits.account_size", limits.account_size != had.account_size),
            ("listen.lmtp_socket_mode", self.listen.lmtp_socket_mode != started.listen.lmtp_socket_mode),
            ("listen.lmtp_socket_group", self.listen.lmtp_socket_group != started.listen.lmtp_socket_group),
            ("limits.account_messages", limits.account_messages != had.account_messages),
            ("limits.folder_messages_warn", limits.folder_messages_warn != had.folder_messages_warn),
            ("limits.folder_messages_max", limits.folder_messages_max != had.folder_messages_max),
            ("limits.shutdown_timeout", limits.shutdown_timeout != had.shutdown_timeout),
            ("search.index", self.search.index != started.search.index),
            ("store.cache", self.store.cache != started.store.cache),
            ("store.index_map", self.store.index_map != started.store.index_map),
            (
                "store.format, store.keep_original",
                self.store.format_settings() != started.store.format_settings(),
            ),
            ("store.precompute", self.store.precompute != started.store.precompute),
            ("store.compress", self.store.compress != started.store.compress),
            ("log.format", self.log.format != started.log.format),
            ("log.long_polls", self.log.long_polls != started.log.long_polls),
        ];
        all.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
    }

    /// This configuration, for a server that started with another one. Several parts of a server
    /// read some settings that wait, and not all parts are made again. So the old value stays.
    pub fn for_running(self, started: &Self) -> Self {
        let Self { data, engine, bodies, hostname, relay, reports, retention, search, store, .. } =
            started.clone();
        // The memory was divided by these.
        let had = &started.limits;
        let limits = Limits {
            memory: had.memory,
            message_size: had.message_size,
            incoming_bytes: had.incoming_bytes,
            reading_bytes: had.reading_bytes,
            summary_bytes: had.summary_bytes,
            account_messages: had.account_messages,
            account_size: had.account_size,
            folder_messages_warn: had.folder_messages_warn,
            folder_messages_max: had.folder_messages_max,
            shutdown_timeout: had.shutdown_timeout,
            ..self.limits
        };
        let login = Login { argon2_memory: started.login.argon2_memory, ..self.login };
        Self {
            data,
            engine,
            bodies,
            hostname,
            relay,
            reports,
            retention,
            search,
            store,
            limits,
            login,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::memory::Plan;

    fn parse(text: &str) -> Config {
        Config::parse(Path::new("posthaste.toml"), text).unwrap()
    }

    #[test]
    fn settings_that_need_a_restart_are_named() {
        let running = parse("");
        assert!(parse("[limits]\nconnections = 7").keys_that_wait(&running).is_empty());
        let next = parse("data = \"d\"\n[log]\nformat = \"json\"");
        assert_eq!(next.keys_that_wait(&running), ["data", "log.format"]);
        for (setting, named) in [
            ("format = \"mime\"", "store.format, store.keep_original"),
            ("keep_original = true", "store.format, store.keep_original"),
            ("precompute = \"never\"", "store.precompute"),
            ("compress = \"zstd\"", "store.compress"),
        ] {
            let next = parse(&format!("[store]\n{setting}"));
            assert_eq!(next.keys_that_wait(&running), [named]);
        }
    }

    /// The filter would know another name of the server than the verifier of signatures, and
    /// delivery another size of messages than EHLO says.
    #[test]
    fn no_part_of_a_running_server_has_what_waits() {
        let running = parse("hostname = \"a.example\"\n[limits]\nmessage_size = \"10 MiB\"");
        for (text, named) in [
            ("hostname = \"b.example\"\n[limits]\nmessage_size = \"10 MiB\"", "hostname"),
            ("hostname = \"a.example\"\n[limits]\nmessage_size = \"20 MiB\"", "limits.message_size"),
        ] {
            let next = parse(text);
            assert_eq!(next.keys_that_wait(&running), [named]);
            assert!(next.for_running(&running).keys_that_wait(&running).is_empty());
        }
        let limits =
            "[limits]\nshutdown_timeout = \"77 s\"\naccount_size = \"77 GiB\"\nfolder_messages_max = 77";
        let (running, next) = (parse(""), parse(limits));
        assert_eq!(next.keys_that_wait(&running).len(), 3);
        assert!(next.for_running(&running).keys_that_wait(&running).is_empty());
        let next = "[limits]\nlogin_timeout = \"7 s\"\n[relay]\nto_addresses = true\n[[retention.rules]]\nmailbox = \
                    \"Trash\"\nolder_than = \"30 days\"\naction = \"delete\"";
        let next = parse(next);
        assert_eq!(next.keys_that_wait(&running), ["relay", "retention"]);
        let next = next.for_running(&running);
        assert!(next.keys_that_wait(&running).is_empty());
        assert_eq!(next.limits.login_timeout.as_secs(), 7);
    }

    /// More memory would give more connections, and the parts of the memory are those of the start:
    /// the reload was refused, and a new certificate with it.
    #[test]
    fn memory_that_waits_changes_no_plan() {
        let running = parse("[limits]\nmemory = \"1 GiB\"");
        let next = parse("[limits]\nmemory = \"64 GiB\"\n[store]\ncache = \"10 MiB\"");
        assert_ne!(Plan::of(&next), Plan::of(&running));
        assert_eq!(Plan::of(&next.for_running(&running)), Plan::of(&running));
    }
}
