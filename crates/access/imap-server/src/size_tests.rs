//! These tests count the bytes that a waiting session holds, so that nobody adds a kibibyte to ten
//! thousand sessions unnoticed.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, Policy};
use posthaste_net::{ByteBudget, Connection, Shutdown, Stream};
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use tokio::net::{TcpListener, TcpStream};

use crate::session::Session;
use crate::{ImapOptions, ImapService, connection};

/// A service on the in-memory engine.
pub(crate) fn service() -> ImapService {
    service_with(ByteBudget::new(1 << 20))
}

/// A service with this memory for incoming messages.
pub(crate) fn service_with(budget: ByteBudget) -> ImapService {
    service_on(Arc::new(MemoryEngine::new()), budget, |delivery| delivery)
}

/// A service with this memory for summaries and copies.
pub(crate) fn service_summarizing(budget: ByteBudget) -> ImapService {
    service_summarizing_on(Arc::new(MemoryEngine::new()), budget)
}

/// The same on another engine.
pub(crate) fn service_summarizing_on(engine: Arc<dyn Engine>, budget: ByteBudget) -> ImapService {
    service_on(engine, ByteBudget::new(1 << 20), |delivery| delivery.with_summaries(budget))
}

fn service_on(
    engine: Arc<dyn Engine>,
    budget: ByteBudget,
    with: impl FnOnce(Delivery) -> Delivery,
) -> ImapService {
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap();
    let delivery = with(Delivery::new(store, Arc::new(directory), DeliveryOptions::default()));
    ImapService::new(ImapOptions::default(), delivery, None, budget)
}

async fn connected() -> (Arc<ImapService>, Connection, TcpStream) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (Arc::new(service()), Connection::new(Stream::plain(server).unwrap()), client)
}

#[tokio::test]
async fn a_session_is_small() {
    let (service, connection, _client) = connected().await;
    let (_trigger, shutdown) = Shutdown::new();
    let mut session = Session::on(Arc::clone(&service), connection, shutdown.clone());
    let held = std::mem::size_of::<Session>();
    let waiting = std::mem::size_of_val(&connection::run(&mut session));
    let command = std::mem::size_of_val(&connection::one_command(&mut session, Bytes::new()));
    println!("session {held}, waiting {waiting}, command {command}");
    assert!(held <= 2048, "a session takes {held} bytes");
    assert!(waiting <= 2048, "waiting for a command takes {waiting} bytes");
    // IDLE is a command, too, so this memory is held while a client idles. IDLE also waits for
    // rights and for NOTIFY, and each of its writes waits for the end of the login.
    assert!(command <= 3520, "a command takes {command} bytes");
}
