#include "checksums.hh"

#include <algorithm>
#include <ctime>

#include <XrdCks/XrdCksCalc.hh>

namespace namewire_xrootd {

namespace {

/* Bytes that are read at a time. */
constexpr std::size_t read_size = 8 << 20;
/* Maximum number of checksums that are kept. */
constexpr std::size_t known_max = 100000;

struct Recycle {
	void operator()(XrdCksCalc *calculator) const { calculator->Recycle(); }
};

} // namespace

Checksums::Checksums(Site &site, XrdSysError *log, XrdVersionInfo &version)
	: XrdCksManager(log, 0, version), site_(site)
{
}

int Checksums::Calc(const char *path, XrdCksData &checksum, int)
{
	return site_.run("checksum", path, [&] {
		if (!*checksum.Name)
			checksum.Set(Name());
		const namewire::File file = site_.context()->open(site_.name_of(path));
		const Key key{file.name(), checksum.Name};
		if (find(key, checksum))
			return 0;
		const int failed = compute(file, checksum);
		if (failed == 0 && file.stat().version != 0)
			keep(key, checksum);
		return failed;
	});
}

int Checksums::compute(const namewire::File &file, XrdCksData &checksum)
{
	const std::unique_ptr<XrdCksCalc, Recycle> calculator(Object(checksum.Name));
	if (!calculator)
		return -ENOTSUP;
	const struct namewire_stat found = file.stat();
	std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(found.size, read_size)));
	for (std::uint64_t offset = 0; offset < found.size;) {
		const std::size_t read = file.pread(buffer.data(), buffer.size(), offset);
		if (read == 0)
			return -EIO;
		calculator->Update(buffer.data(), static_cast<int>(read));
		offset += read;
	}
	int length = 0;
	calculator->Type(length);
	const void *const value = calculator->Final();
	if (!checksum.Set(value, length))
		return -EDOM;
	const auto modified = static_cast<long long>(found.modified_ns / 1000000000);
	checksum.fmTime = modified;
	checksum.csTime = static_cast<int>(std::time(nullptr) - modified);
	return 0;
}

int Checksums::Get(const char *path, XrdCksData &checksum)
{
	return site_.run("checksum", path, [&]() -> int {
		if (!*checksum.Name)
			checksum.Set(Name());
		const namewire::File file = site_.context()->open(site_.name_of(path));
		return find({file.name(), checksum.Name}, checksum) ? checksum.Length : -ESRCH;
	});
}

int Checksums::Ver(const char *path, XrdCksData &checksum)
{
	XrdCksData own;
	own.Set(checksum.Name);
	const int failed = Calc(path, own, 0);
	return failed ? failed : own == checksum;
}

char *Checksums::List(const char *path, char *buffer, int length, char separator)
{
	/* Every algorithm of the server works for every file. */
	(void)path;
	return XrdCksManager::List(nullptr, buffer, length, separator);
}

bool Checksums::find(const Key &key, XrdCksData &checksum)
{
	const std::lock_guard<std::mutex> lock(mutex_);
	const auto found = known_.find(key);
	if (found == known_.end())
		return false;
	checksum = found->second;
	return true;
}

void Checksums::keep(const Key &key, const XrdCksData &checksum)
{
	const std::lock_guard<std::mutex> lock(mutex_);
	if (!known_.emplace(key, checksum).second)
		return;
	oldest_.push_back(key);
	if (oldest_.size() > known_max) {
		known_.erase(oldest_.front());
		oldest_.pop_front();
	}
}

} // namespace namewire_xrootd
