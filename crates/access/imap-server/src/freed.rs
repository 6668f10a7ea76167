//! Large memory of commands and messages is freed on another thread.

pub(crate) use posthaste_net::{FREED_HERE_MAX, free, freed_elsewhere};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::SocketAddr;
    use std::sync::{Arc, mpsc};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use bytes::Bytes;
    use posthaste_directory::NewAccount;
    use posthaste_mail_model::Secret;
    use posthaste_net::{ByteBudget, Connection, Shutdown, Stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use crate::connection;
    use crate::session::Session;
    use crate::size_tests::{service, service_with};

    const LEN: usize = 20 << 20;

    /// A connection over memory, and its client.
    fn connected() -> (DuplexStream, Connection) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        (client, Connection::new(Stream::over(server, address(40_000), address(143))))
    }

    /// Reads up to a line that begins like this.
    async fn hear(client: &mut DuplexStream, begin: &str) {
        let mut heard = String::new();
        while !heard.lines().any(|line| line.starts_with(begin)) || !heard.ends_with('\n') {
            // The deadline only ends a test that fails.
            let read = tokio::time::timeout(Duration::from_secs(60), client.read_u8()).await;
            heard.push(char::from(read.unwrap_or_else(|_| panic!("{heard}")).unwrap()));
        }
    }

    /// Memory that notes which thread frees it.
    struct Noted(Vec<u8>, mpsc::Sender<ThreadId>);

    impl AsRef<[u8]> for Noted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            self.1.send(thread::current().id()).unwrap();
        }
    }

    #[tokio::test]
    async fn a_long_command_is_freed_on_another_thread() {
        let (_trigger, shutdown) = Shutdown::new();
        let (_client, connection) = connected();
        let mut session = Box::new(Session::on(Arc::new(service()), connection, shutdown));
        for (len, elsewhere) in [(1 << 20, false), (LEN, true)] {
            let mut command = format!("a APPEND INBOX {{{len}+}}\r\n").into_bytes();
            command.resize(command.len() + len, b'x');
            command.extend_from_slice(b"\r\n");
            let (freed, by) = mpsc::channel();
            let bytes = Bytes::from_owner(Noted(command, freed));
            connection::command_and_memory(&mut session, bytes).await.unwrap();
            assert_eq!(by.recv().unwrap() != thread::current().id(), elsewhere, "{len} octets");
        }
    }

    /// The permit ends with the memory. The one other thread is busy, so neither has ended yet.
    #[test]
    fn memory_of_a_refused_command_is_freed_on_another_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let service = Arc::new(service_with(ByteBudget::new(256 << 20)));
            let password = Secret::new("correct horse".to_owned());
            service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
            let (_trigger, shutdown) = Shutdown::new();
            let (mut client, connection) = connected();
            tokio::spawn(Arc::clone(&service).serve(connection, shutdown));
            client.write_all(b"l LOGIN ana@example.org \"correct horse\"\r\n").await.unwrap();
            hear(&mut client, "l OK").await;
            let all = service.budget.available();
            let (go, wait) = mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv().unwrap());
            client.write_all(format!("a APPEND INBOX {{{LEN}+}}\r\n").as_bytes()).await.unwrap();
            client.write_all(&vec![b'x'; LEN]).await.unwrap();
            // No message may be this long (RFC 7889).
            client.write_all(b" {99999999999}\r\n").await.unwrap();
            hear(&mut client, "a NO [TOOBIG]").await;
            let reserved = all - service.budget.available();
            assert!(reserved >= LEN, "{reserved} octets are reserved");
            go.send(()).unwrap();
            busy.await.unwrap();
            // Memory is freed in order, so everything that was passed on before is freed when
            // this ends.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(service.budget.available(), all);
        });
    }
}
