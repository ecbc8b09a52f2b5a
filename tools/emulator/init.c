// The first process of the emulated machine: runs /program with the NUL-terminated strings of
// /arguments and /environment, sends what it writes to Bochs's debug port and switches off.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kDebugPort = 0xe9, kPowerPort = 0x8900, kStrings = 256 };

static void send(int port, const char* bytes, ssize_t count) {
  for (ssize_t i = 0; i < count; ++i) {
    outb((unsigned char)bytes[i], (unsigned short)port);
  }
}

// The strings of a file, and NULL.
static void read_strings(const char* path, char* buffer, size_t size, char** strings) {
  const int file = open(path, O_RDONLY);
  const ssize_t length = read(file, buffer, size);
  close(file);
  int count = 0;
  for (char* at = buffer; at < buffer + length && count + 1 < kStrings; at += strlen(at) + 1) {
    strings[count++] = at;
  }
  strings[count] = NULL;
}

static void run(int output) {
  static char arguments[1 << 16], environment[1 << 16];
  static char *argv[kStrings], *envp[kStrings];
  read_strings("/arguments", arguments, sizeof arguments, argv);
  read_strings("/environment", environment, sizeof environment, envp);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  execve("/program", argv, envp);
  perror("/program");
  _exit(127);
}

int main(void) {
  mkdir("/proc", 0755);
  mkdir("/dev", 0755);
  mkdir("/tmp", 0777);
  mount("proc", "/proc", "proc", 0, NULL);
  mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
  iopl(3);
  send(kDebugPort, "\x01\n", 2);
  int ends[2];
  if (pipe(ends) != 0) {
    return 1;
  }
  const pid_t program = fork();
  if (program == 0) {
    close(ends[0]);
    iopl(0);
    run(ends[1]);
  }
  close(ends[1]);
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    send(kDebugPort, buffer, count);
  }
  int status = 0;
  waitpid(program, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  send(kDebugPort, buffer, snprintf(buffer, sizeof buffer, "\x02%d\n", code));
  send(kPowerPort, "Shutdown", 8);
  return 0;
}
