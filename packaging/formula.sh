#!/bin/sh
# Prints the Homebrew formula of a release, for butlerdotdev/homebrew-tap.
# Usage: formula.sh X.Y.Z SHA256SUMS
set -eu
version=${1:?the version} sums=${2:?the list of checksums}

sum() { # sum <platform>
    awk -v name="butler-runner_$1.tar.gz" '
        $2 == name && $1 ~ /^[0-9a-f]+$/ && length($1) == 64 { print $1; count++ }
        END { exit count != 1 }
    ' "$sums" || { echo "error: \`$sums\` has no checksum for $1" >&2; exit 1; }
}

file() { # file <platform> <checksum>
    cat <<RUBY
      url "https://github.com/butlerdotdev/butler-runner/releases/download/v$version/butler-runner_$1.tar.gz"
      sha256 "$2"
RUBY
}

# Before the output, so that it is never an incomplete formula.
darwin_arm64=$(sum darwin_arm64)
darwin_amd64=$(sum darwin_amd64)
linux_arm64=$(sum linux_arm64)
linux_amd64=$(sum linux_amd64)

cat <<RUBY
class ButlerRunner < Formula
  desc "Executes Terraform and OpenTofu runs for a registry"
  homepage "https://github.com/butlerdotdev/butler-runner"
  version "$version"
  license "Apache-2.0"

  on_macos do
    on_arm do
$(file darwin_arm64 "$darwin_arm64")
    end
    on_intel do
$(file darwin_amd64 "$darwin_amd64")
    end
  end

  on_linux do
    on_arm do
$(file linux_arm64 "$linux_arm64")
    end
    on_intel do
$(file linux_amd64 "$linux_amd64")
    end
  end

  def install
    bin.install "butler-runner"
    generate_completions_from_executable(bin/"butler-runner", "completions")
    system bin/"butler-runner", "man", buildpath/"man"
    man1.install Dir[buildpath/"man/*.1"]
  end

  test do
    assert_equal "butler-runner #{version}", shell_output("#{bin}/butler-runner -V").chomp
  end
end
RUBY
