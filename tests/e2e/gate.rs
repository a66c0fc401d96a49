//! A plain TCP relay before one backend that can be shut: what the backend sends is then held back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
struct State {
    /// Bytes from the backend that still pass before the gate shuts, where it is to shut.
    left: Option<usize>,
    shut: bool,
}

pub(crate) struct Gate {
    address: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Gate {
    /// Relays to a `host:port` until the process ends.
    pub(crate) fn before(backend: &str) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let (gate, backend) = (state.clone(), backend.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(backend) = TcpStream::connect(&backend) else { continue };
                let (Ok(from_client), Ok(to_backend)) = (client.try_clone(), backend.try_clone()) else { continue };
                std::thread::spawn(move || pass(from_client, to_backend, |_| {}));
                let gate = gate.clone();
                std::thread::spawn(move || pass(backend, client, |bytes| admit(&gate, bytes)));
            }
        });
        Gate { address, state }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Shuts once so many bytes more have come from the backend.
    pub(crate) fn shut_after(&self, bytes: usize) {
        self.state.0.lock().expect("no holder panics").left = Some(bytes);
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.state.0.lock().expect("no holder panics").shut
    }

    pub(crate) fn open(&self) {
        *self.state.0.lock().expect("no holder panics") = State::default();
        self.state.1.notify_all();
    }
}

/// Waits until the gate lets these bytes pass.
fn admit((state, opened): &(Mutex<State>, Condvar), bytes: usize) {
    let mut state = state.lock().expect("no holder panics");
    if let Some(left) = &mut state.left {
        *left = left.saturating_sub(bytes);
        state.shut |= *left == 0;
    }
    drop(opened.wait_while(state, |state| state.shut).expect("no holder panics"));
}

fn pass(mut from: TcpStream, mut to: TcpStream, admit: impl Fn(usize)) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        admit(read);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
