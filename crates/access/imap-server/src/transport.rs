//! The bytes below a session.
//!
//! A session reads and writes through a [`Transport`], and through nothing else. It has seven
//! methods. Four do I/O: read, write, change a layer, close. Three do none: they name the account,
//! count a command, and describe the connection for SASL. The server's transport is a
//! [`Connection`] of `posthaste-net`: a socket with TLS, compression and the limits of accounts. A
//! test's transport may be memory. The session's clock is handed in with it.
//!
//! A session does not know its transport's type, so each call allocates its future. A session makes
//! some two calls for a command, one for 64 KiB of a listing, and none between pipelined commands.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::BytesMut;
use posthaste_directory::sasl::{Channel, Plaintext};
use posthaste_directory::{Client, Service};
use posthaste_net::{AccountLimit, AccountShare, Certificates, Connection, LoginEnd, NetError};

/// A call under way. A read may be dropped while it waits, without loss.
pub(crate) type Io<'t, T> = Pin<Box<dyn Future<Output = Result<T, NetError>> + Send + 't>>;

/// The event that a read waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// At most this many bytes, for at most this time.
    Input { most: usize, within: Duration },
    /// At most this many bytes of something that has begun to arrive, for at most this time. The
    /// client may hold them back until the beginning is acknowledged.
    Rest { most: usize, within: Duration },
    /// The end of the connection. Nothing is read, and the outcome is [`NetError::Closed`].
    Leave,
    /// The time when the account may give its next command. Nothing is read.
    CommandAllowed,
}

/// The action after a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// More of the same answer. It is not sent if the login has ended.
    More,
    /// A wait for the client: everything must be on its way.
    Flush,
}

/// A change of a layer between a session and its bytes.
#[derive(Clone, Copy)]
pub(crate) enum StreamChange<'l> {
    /// TLS with these certificates.
    Tls(&'l Certificates),
    /// Compression, over TLS or not.
    Deflate,
    /// Ends compression.
    StopDeflate,
}

/// The bytes below a session. Each call ends in [`NetError::TimedOut`] after its time.
pub(crate) trait Transport: Send + Sync {
    /// Waits. Appends the bytes that came to the input, and returns how many there are. The end of
    /// the stream is [`NetError::Closed`].
    fn read<'t>(&'t mut self, input: &'t mut BytesMut, wait: Wait) -> Io<'t, usize>;

    /// Sends all of these bytes. If it is dropped while it waits, only closing is left.
    fn write<'t>(&'t mut self, bytes: &'t [u8], then: Then, within: Duration) -> Io<'t, ()>;

    /// Changes the layers. The input is empty for a new one (see [`Wire`](crate::wire::Wire)).
    /// Bytes after the end of compression are appended to it.
    fn change<'t>(
        &'t mut self,
        change: StreamChange<'t>,
        input: &'t mut BytesMut,
        within: Duration,
    ) -> Io<'t, ()>;

    /// Closes the connection. All answers were sent.
    fn close(self: Box<Self>, within: Duration) -> Io<'static, ()>;

    /// The account whose session it is: its limits hold for reads and writes, and an answer ends
    /// with its login. A transport may have no limits.
    fn belongs_to(&mut self, _account: Option<(AccountShare, LoginEnd)>) {}

    /// Counts a command. Whether its account is over its limit, so that the session has to
    /// [wait](Wait::CommandAllowed).
    fn count_command(&mut self) -> bool {
        false
    }

    /// The properties of the connection for SASL. By default it is in the clear.
    fn channel(&self, client: Client) -> Channel {
        let (plaintext, scram) = (Plaintext::Refused, Plaintext::Refused);
        Channel { client, tls: None, certificate: None, plaintext, scram }
    }
}

/// The client's end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// The number of the connection, for logs.
    pub(crate) id: u64,
    /// Behind a proxy, the address that the proxy named.
    pub(crate) address: SocketAddr,
    /// Whether TLS is active.
    pub(crate) is_encrypted: bool,
}

impl Peer {
    pub(crate) fn of(connection: &Connection) -> Self {
        let (id, address) = (connection.id(), connection.peer());
        Self { id, address, is_encrypted: connection.is_encrypted() }
    }
}

impl Transport for Connection {
    fn read<'t>(&'t mut self, input: &'t mut BytesMut, wait: Wait) -> Io<'t, usize> {
        match wait {
            Wait::Input { most, within } => Box::pin(self.fill_into(input, most, within)),
            Wait::Rest { most, within } => Box::pin(self.fill_rest_into(input, most, within)),
            Wait::Leave => Box::pin(async move {
                self.peer_left().await;
                Err(NetError::Closed)
            }),
            Wait::CommandAllowed => Box::pin(async move {
                let Some(share) = self.share() else { return Ok(0) };
                tokio::select! {
                    biased;
                    () = self.peer_left() => Err(NetError::Closed),
                    () = share.wait(AccountLimit::Commands) => Ok(0),
                }
            }),
        }
    }

    fn write<'t>(&'t mut self, bytes: &'t [u8], then: Then, within: Duration) -> Io<'t, ()> {
        match then {
            Then::More => Box::pin(self.write_more_within(bytes, within)),
            Then::Flush => Box::pin(self.write_all_within(bytes, within)),
        }
    }

    fn change<'t>(
        &'t mut self,
        change: StreamChange<'t>,
        input: &'t mut BytesMut,
        within: Duration,
    ) -> Io<'t, ()> {
        Box::pin(async move {
            match change {
                StreamChange::Tls(certificates) => self.start_tls(certificates, within).await?,
                StreamChange::Deflate => self.start_deflate()?,
                StreamChange::StopDeflate => {
                    self.end_deflate(within).await?;
                    input.extend_from_slice(&std::mem::take(self.input_mut()));
                }
            }
            Ok(())
        })
    }

    fn close(self: Box<Self>, within: Duration) -> Io<'static, ()> {
        Box::pin(Connection::close(*self, within))
    }

    fn belongs_to(&mut self, account: Option<(AccountShare, LoginEnd)>) {
        match account {
            Some((share, login_end)) => {
                Connection::belongs_to(self, share);
                self.ends_with(login_end);
            }
            None => self.belongs_to_nobody(),
        }
    }

    fn count_command(&mut self) -> bool {
        Connection::count_command(self)
    }

    fn channel(&self, _client: Client) -> Channel {
        Channel::of(self, Service::Imap, Plaintext::Refused, Plaintext::Refused)
    }
}
