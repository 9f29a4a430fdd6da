"""The names by which `hazards` knows what the host would execute later, in small letters, with what would happen.

`a` is a name anywhere, `a/b` a name in a folder anywhere, `a/` a folder and everything in it; `*` stands for characters
of one part. A new tool that obeys a file of the repository is a new word here.
"""

from typing import Final, NamedTuple


class Names(NamedTuple):
    """Names of one kind, with white space between them."""

    kind: str
    why: str
    patterns: str


HAZARDS: Final = (
    Names(
        "git",
        "git obeys it: filters, drivers and submodules can start programs",
        """
        .gitattributes .gitmodules .gitconfig
        """,
    ),
    Names(
        "editor",
        "an editor that opens the folder obeys it, and can start programs by it",
        """
        .vscode/ .idea/ .devcontainer/ .devcontainer.json *.code-workspace .zed/ .fleet/ .vs/ *.sublime-project
        .vimrc .gvimrc .exrc .nvimrc .nvim.lua .nvim/ .vim/ .lvimrc .local.vimrc .dir-locals.el .dir-locals-2.el
        .emacs .emacs.d/ .projectile *.iml *.csproj.user
        """,
    ),
    Names(
        "environment",
        "shells and tools that enter the folder read it, and can run what it says",
        """
        .envrc .env .env.* .flaskenv .mise.toml mise.toml .mise/ .tool-versions .rtx.toml .autoenv .autoenv.zsh
        .nvmrc .sdkmanrc devbox.json flake.nix shell.nix default.nix .pythonstartup
        """,
    ),
    Names(
        "ci",
        "a build server runs it, with that server's credentials",
        """
        .github/workflows/ .github/actions/ action.yml action.yaml .gitlab-ci.yml .gitlab-ci.yaml .gitlab/
        .circleci/ jenkinsfile jenkinsfile.* azure-pipelines.yml azure-pipelines.yaml .azure-pipelines/
        .drone.yml .drone.yaml .drone.star bitbucket-pipelines.yml .buildkite/ .woodpecker/ .woodpecker.yml
        .woodpecker.yaml .travis.yml appveyor.yml .appveyor.yml .cirrus.yml .cirrus.star .teamcity/
        .forgejo/workflows/ .gitea/workflows/ .builds/ .build.yml cloudbuild.yaml cloudbuild.yml buildspec.yml
        .semaphore/ codefresh.yml netlify.toml vercel.json .github/dependabot.yml renovate.json .renovaterc
        .renovaterc.json
        """,
    ),
    Names(
        "package",
        "installing, building or testing the project runs it",
        """
        setup.py setup.cfg pyproject.toml conftest.py tox.ini noxfile.py pytest.ini sitecustomize.py
        usercustomize.py *.pth pip.conf .pip/ .pypirc build.rs .cargo/ cargo.toml .npmrc .yarnrc .yarnrc.yml
        .yarn/ .pnpmfile.cjs pnpmfile.js .pnp.cjs .pnp.loader.mjs binding.gyp gemfile *.gemspec .bundle/
        extconf.rb build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties
        init.gradle gradle/wrapper/ pom.xml .mvn/ mvnw mvnw.cmd gradlew gradlew.bat composer.json mix.exs
        rebar.config build.zig package.swift directory.build.props directory.build.targets nuget.config
        bunfig.toml deno.json deno.jsonc build.sbt meson.build cmakelists.txt configure configure.ac
        """,
    ),
    Names(
        "build",
        "the next build runs it, by make, docker or a tool like them",
        """
        makefile gnumakefile makefile.* *.mk justfile .justfile taskfile.yml taskfile.yaml taskfile.dist.yml
        rakefile dockerfile dockerfile.* *.dockerfile containerfile docker-compose.yml docker-compose.yaml
        docker-compose.*.yml compose.yml compose.yaml compose.override.yml vagrantfile tiltfile earthfile
        procfile dodo.py sconstruct wscript
        """,
    ),
    Names(
        "hooks",
        "a hook framework runs it on the next commit or push",
        """
        .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml .husky/ .huskyrc .huskyrc.*
        .githooks/ githooks/ .git-hooks/ git-hooks/ lefthook.yml lefthook.yaml .lefthook.yml .lefthook/
        lefthook-local.yml .overcommit.yml .lintstagedrc .lintstagedrc.* lint-staged.config.*
        .simple-git-hooks.* .captainhook.json
        """,
    ),
    Names(
        "agent",
        "an agent obeys it: instructions, hooks, permissions, and servers that it starts",
        """
        .claude/ .claude.json claude.md claude.local.md agents.md agent.md .mcp.json mcp.json .cursor/
        .cursorrules .cursorignore .codex/ .gemini/ gemini.md .aider* .continue/ .continuerc.json .windsurf/
        .windsurfrules .windsurf* .clinerules .clinerules/ .cline/ .roo/ .roomodes .roorules .kilocode/ .kiro/
        .amazonq/ .augment/ .junie/ .goosehints .goose/ .opencode/ opencode.json opencode.jsonc .trae/ .qwen/
        qwen.md .agents/ .github/copilot-instructions.md .github/instructions/ .github/prompts/
        .github/chatmodes/ .github/agents/ .tipstaff/ tipstaff.yaml skill.md
        """,
    ),
    Names(
        "shell",
        "a shell runs it when it starts or ends",
        """
        .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
        .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xinitrc .xsession .xsessionrc
        config.fish .config/fish/ .config/autostart/ .config/systemd/ .pam_environment .screenrc .tmux.conf
        .ssh/ .gdbinit .lldbinit .pdbrc .pdbrc.py .irbrc .pryrc .rprofile .renviron .npm-init.js .curlrc .wgetrc
        .netrc
        """,
    ),
)
COMMAND_FOLDERS: Final = ("bin", "sbin", ".bin")  # the last part of the folder that a program lies in
COMMANDS: Final = """
    ls cat cp mv rm ln mkdir rmdir touch chmod chown cd pwd echo printf test true false env which type id whoami su
    sudo doas ssh scp sftp rsync ssh-add ssh-agent ssh-keygen gpg gpg2 pass openssl curl wget nc ncat telnet ftp git
    gh glab hub svn hg diff patch grep egrep fgrep rg ag find fd xargs sed awk gawk sort uniq head tail less more wc
    tr cut tee date sleep time timeout kill ps top htop df du mount umount tar gzip gunzip zip unzip xz zstd make
    cmake ninja gcc g++ cc c++ clang clang++ ld as ar nm objdump strip gdb lldb strace ltrace python python2 python3
    pip pip3 pipx uv uvx poetry pdm hatch tox nox pytest ruff black mypy node nodejs npm npx yarn pnpm bun bunx deno
    tsc eslint prettier jest ruby gem bundle bundler rake irb perl php composer lua java javac mvn gradle ant kotlin
    scala sbt go gofmt cargo rustc rustup dotnet swift docker docker-compose podman buildah kubectl helm terraform
    tofu ansible ansible-playbook vagrant aws gcloud az sh bash zsh fish dash ksh csh tcsh vi vim nvim nano emacs
    code subl claude codex gemini aider tipstaff systemctl journalctl service crontab at apt apt-get dpkg yum dnf
    rpm pacman brew snap flatpak man info clear reset stty tput screen tmux jq yq base64 md5sum sha1sum sha256sum
    uname hostname ip ping dig host nslookup mysql psql sqlite3 redis-cli just task direnv mise asdf nix
"""
