//! An HTTP proxy on loopback that forwards requests and tunnels if the client's
//! `Proxy-Authorization` is right, and records them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy; its connections end with their clients.
pub struct ForwardProxy {
    address: SocketAddr,
    request_lines: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    /// A proxy that requires this `Proxy-Authorization`, or none.
    pub fn start(demanded: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let request_lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&request_lines);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, noted) = (client.unwrap(), Arc::clone(&noted));
                std::thread::spawn(move || serve(client, demanded, &noted));
            }
        });
        Self { address, request_lines }
    }

    /// The value of `HTTP_PROXY` or `HTTPS_PROXY`, with credentials if given.
    pub fn url(&self, login: &str) -> String {
        format!("http://{login}{}", self.address)
    }

    /// The recorded request lines: `GET http://…` or `CONNECT …`.
    pub fn request_lines(&self) -> Vec<String> {
        self.request_lines.lock().unwrap().clone()
    }
}

fn serve(client: TcpStream, demanded: Option<&str>, request_lines: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut client = client;
    let mut words = lines[0].split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    request_lines.lock().unwrap().push(format!("{method} {target}"));
    let field = |line: &String, name: &str| {
        let (field, value) = line.split_once(": ")?;
        field.eq_ignore_ascii_case(name).then(|| value.to_owned())
    };
    let authorization = lines.iter().find_map(|line| field(line, "proxy-authorization"));
    if demanded.is_some() && authorization.as_deref() != demanded {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\
                       content-length: 0\r\nconnection: close\r\n\r\n";
        let _ = client.write_all(refusal.as_bytes());
        return;
    }
    if method == "CONNECT" {
        let site = TcpStream::connect(target).unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        relay(client, site);
    } else {
        let url: url::Url = target.parse().unwrap();
        let mut site = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
        let mut head = format!("{method} {} HTTP/1.1\r\nconnection: close\r\n", url.path());
        for line in &lines[1..] {
            if !line.to_lowercase().starts_with("proxy-") {
                head.push_str(line);
                head.push_str("\r\n");
            }
        }
        site.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        relay(client, site);
    }
}

/// Forwards data in both directions until both sides have finished.
fn relay(client: TcpStream, site: TcpStream) {
    let (from, to) = (client.try_clone().unwrap(), site.try_clone().unwrap());
    let upwards = std::thread::spawn(move || pump(from, to));
    pump(site, client);
    upwards.join().unwrap();
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
