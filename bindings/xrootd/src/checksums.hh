/* Checksums of files: computed from verified content, once for each version. */
#ifndef NAMEWIRE_XROOTD_CHECKSUMS_HH
#define NAMEWIRE_XROOTD_CHECKSUMS_HH

#include <deque>
#include <map>
#include <mutex>
#include <string>

#include <XrdCks/XrdCksManager.hh>

#include "site.hh"

namespace namewire_xrootd {

class Checksums : public XrdCksManager {
public:
	Checksums(Site &site, XrdSysError *log, XrdVersionInfo &version);

	int Calc(const char *path, XrdCksData &checksum, int store) override;
	int Get(const char *path, XrdCksData &checksum) override;
	int Ver(const char *path, XrdCksData &checksum) override;
	char *List(const char *path, char *buffer, int length, char separator) override;
	int Set(const char *, XrdCksData &, int) override { return -EROFS; }
	int Del(const char *, XrdCksData &) override { return -EROFS; }

private:
	/* Name with version, and the name of the algorithm. */
	using Key = std::pair<std::string, std::string>;

	int compute(const namewire::File &file, XrdCksData &checksum);
	bool find(const Key &key, XrdCksData &checksum);
	void keep(const Key &key, const XrdCksData &checksum);

	Site &site_;
	std::mutex mutex_;
	std::map<Key, XrdCksData> known_;
	std::deque<Key> oldest_;
};

} // namespace namewire_xrootd

#endif
