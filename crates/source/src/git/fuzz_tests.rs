//! Addresses of repositories, which both git and libgit2 will read in their own ways.

use super::url::{RepositoryUrl, Scheme};
use butler_fuzz::Target;

#[test]
fn fuzz_url_address_has_one_plain_host_and_no_password() {
    let samples: [&[u8]; 6] = [
        b"https://me:hunter22@git.example.com:8443/team/repo.git",
        b"ssh://git@host.example.com:2222/team/repo",
        b"git@github.com:team/repo.git",
        b"file:///srv/git/repo.git",
        b"http://[::1]:80/x",
        b"ext::sh -c 'touch /tmp/x'",
    ];
    let tokens: [&[u8]; 16] = [
        b"://",
        b"@",
        b":",
        b"/",
        b"\\",
        b"%00",
        b"%2F",
        b"#",
        b"?",
        b"-oProxyCommand=",
        b"\n",
        b"..",
        b"[",
        b"ext::",
        b"\xe2\x80\xae",
        b"localhost",
    ];
    let mut accepted = 0;
    Target { name: "url", samples: &samples, tokens: &tokens, rounds: 20_000 }.run(|input, _| {
        let text = String::from_utf8_lossy(input);
        let Ok((address, _)) = RepositoryUrl::parse(&text) else { return };
        accepted += 1;
        let shown = address.as_str();
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(!address.host.starts_with('-'), "{shown}");
        assert!(
            address.host.chars().all(|c| c.is_ascii_alphanumeric() || "._-:".contains(c)),
            "{shown}"
        );
        assert_eq!(address.host.is_empty(), address.scheme == Scheme::File, "{shown}");
        // A second parse of the address has the same result, and no credentials.
        let (again, userinfo) = RepositoryUrl::parse(shown).unwrap();
        assert_eq!(again, address, "{shown}");
        assert!(userinfo.is_none_or(|it| it.password.is_none()), "{shown}");
    });
    assert!(accepted > 0, "no input was right");
}
