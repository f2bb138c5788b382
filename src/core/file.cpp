// System calls behind core/file.h; every failure leaves with path and reason.
#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/units.h"

namespace tutti::core {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFileMode = 0666;  // the user's umask takes away what they do not want

Fd open_file(const fs::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, kNewFileMode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw_errno(fmt::format("open of {}", path.string()));
  return Fd(fd);
}

struct stat status_of(const Fd& fd, const fs::path& path) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno(fmt::format("stat of {}", path.string()));
  if (S_ISDIR(status.st_mode)) {
    throw RunError(fmt::format("{} is a folder where a file is expected", path.string()));
  }
  return status;
}

/// Turns errno after a failed write or fsync into a RunError; a full disk is said in numbers.
[[noreturn]] void throw_write_error(const fs::path& path, std::size_t bytes) {
  const int error = errno;
  std::string text = fmt::format("write of {} to {} failed: {}", format_bytes(bytes), path.string(),
                                 std::strerror(error));
  struct statvfs disk {};
  if ((error == ENOSPC || error == EDQUOT) && ::statvfs(path.c_str(), &disk) == 0) {
    const auto free_bytes = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    text += fmt::format(". {} are free there: make room or choose another folder",
                        format_bytes(free_bytes));
  }
  throw RunError(text);
}

void write_all(const Fd& fd, const fs::path& path, std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote >= 0) {
      done += static_cast<std::size_t>(wrote);
    } else if (errno != EINTR) {
      throw_write_error(path, bytes.size() - done);
    }
  }
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Fd fd = open_file(path, O_RDONLY);
  std::string content;
  content.reserve(static_cast<std::size_t>(status_of(fd, path).st_size));
  char buffer[1 << 16];
  while (true) {  // to the end, not to st_size: files of /proc have size 0
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return content;
    if (got > 0) {
      content.append(buffer, static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      throw_errno(fmt::format("read of {}", path.string()));
    }
  }
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  fs::path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  try {
    OutputFile file(temporary);
    file.write(std::as_bytes(std::span(content)));
    file.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno(fmt::format("rename of {} to {}", temporary.string(), path.string()));
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(folder_of(path));
}

void sync_path(const fs::path& path) {
  const Fd fd = open_file(path, O_RDONLY);
  if (::fsync(fd.get()) != 0) throw_errno(fmt::format("fsync of {}", path.string()));
}

OutputFile::OutputFile(const fs::path& path)
    : fd_(open_file(path, O_WRONLY | O_CREAT | O_TRUNC)), path_(path) {}

void OutputFile::write(std::span<const std::byte> bytes) { write_all(fd_, path_, bytes); }

void OutputFile::finish() {
  if (::fsync(fd_.get()) != 0) throw_write_error(path_, 0);  // a full disk may show only here
  if (::close(fd_.release()) != 0) throw_write_error(path_, 0);
}

LineFile::LineFile(const fs::path& path)
    : fd_(open_file(path, O_WRONLY | O_CREAT | O_APPEND)), path_(path) {}

void LineFile::write(std::string_view line) {
  std::string text(line);
  text += '\n';  // in the same write: lines of several writers never mix
  write_all(fd_, path_, std::as_bytes(std::span(text)));
}

MappedFile::MappedFile(const fs::path& path) {
  const Fd fd = open_file(path, O_RDONLY);
  const auto size = static_cast<std::size_t>(status_of(fd, path).st_size);
  if (size == 0) return;  // mmap refuses an empty file
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (start == MAP_FAILED) throw_errno(fmt::format("mmap of {}", path.string()));
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tutti::core
