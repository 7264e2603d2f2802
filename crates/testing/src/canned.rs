//! A web server with one response for all requests, with or without TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use super::authority::Authority;

/// Responds to every request with `answer` until the test ends. Returns `host:port`.
pub fn canned(answer: String, authority: Option<&Authority>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let acceptor = authority.map(Authority::acceptor);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            match &acceptor {
                None => converse(stream, &answer),
                // A client that does not trust the certificate closes the connection.
                Some(acceptor) => drop(acceptor.accept(stream).map(|it| converse(it, &answer))),
            }
        }
    });
    address
}

fn converse(stream: impl Read + Write, answer: &str) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let _ = stream.get_mut().write_all(answer.as_bytes());
}

/// A response with a status such as `401 Unauthorized`, a date, and a JSON body.
pub fn json_response(status: &str, date: std::time::SystemTime, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ndate: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        httpdate::fmt_http_date(date),
        body.len()
    )
}
