class ButlerRunner < Formula
  desc "Executes Terraform and OpenTofu runs for a registry"
  homepage "https://github.com/butlerdotdev/butler-runner"
  version "1.2.3"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/butlerdotdev/butler-runner/releases/download/v1.2.3/butler-runner_darwin_arm64.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
    on_intel do
      url "https://github.com/butlerdotdev/butler-runner/releases/download/v1.2.3/butler-runner_darwin_amd64.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000001"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/butlerdotdev/butler-runner/releases/download/v1.2.3/butler-runner_linux_arm64.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000002"
    end
    on_intel do
      url "https://github.com/butlerdotdev/butler-runner/releases/download/v1.2.3/butler-runner_linux_amd64.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000003"
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
