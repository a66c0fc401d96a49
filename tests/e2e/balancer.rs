//! A plain TCP balancer: each connection goes to the next backend that takes it. Knows no HTTP and no health.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Balancer {
    address: String,
}

impl Balancer {
    /// Balances over `host:port`s until the process ends.
    pub(crate) fn over(backends: Vec<String>) -> Balancer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (backends, turn) = (Arc::new(backends), Arc::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (backends, turn) = (backends.clone(), turn.clone());
                std::thread::spawn(move || relay(client, &backends, turn.fetch_add(1, Ordering::Relaxed)));
            }
        });
        Balancer { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Both directions, until each has ended. Where no backend takes the connection the client's is closed.
fn relay(client: TcpStream, backends: &[String], turn: usize) {
    let mut in_turn = (0..backends.len()).map(|i| &backends[(turn + i) % backends.len()]);
    let Some(backend) = in_turn.find_map(|address| TcpStream::connect(address).ok()) else { return };
    let (Ok(to_client), Ok(to_backend)) = (client.try_clone(), backend.try_clone()) else { return };
    let back = std::thread::spawn(move || pass(backend, to_client));
    pass(client, to_backend);
    let _ = back.join();
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
