//! Servers of tests with a thread of their own, so that a test can wait for a program that asks them.

use std::net::{Ipv4Addr, TcpListener};

use axum::Router;

/// Serves until the test ends. Returns the port on the loopback interface.
pub fn serve(router: Router) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    port
}
